use std::sync::Arc;

use leastlock_lease::{Error, FencedObject, Permit};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::file::number_in;
use super::{Guard, Resource, refused_by_a_double};
use crate::rig::Rig;

/// An object with the number in it.
pub(crate) struct Object {
    store: Arc<InMemory>,
    object: FencedObject,
}

impl Object {
    async fn manifest(&self) -> String {
        let text = self.store.get(&Path::from("value/manifest")).await.unwrap().bytes().await.unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }
}

impl<R: Rig> Resource<R> for Object {
    async fn create(_rig: &R) -> Self {
        let store = Arc::new(InMemory::new());
        let object = FencedObject::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "value").unwrap();
        Self { store, object }
    }

    async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        self.object.seal(permit).await?;
        assert_eq!(self.object.generation().await.unwrap(), Some(permit.token()));
        Ok(())
    }

    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error> {
        if guard == Guard::Right {
            return self.object.publish(permit, value.to_string()).await;
        }
        let manifest = self.manifest().await;
        if guard == Guard::NumberOnly && number_in(&manifest) != permit.token().value() {
            return Err(refused_by_a_double());
        }
        // The doubles replace the manifest whatever it is by now.
        self.store.put(&Path::from("value/late"), value.to_string().into()).await.unwrap();
        let kept: String = manifest.split_inclusive('\n').filter(|line| !line.starts_with("content ")).collect();
        self.store.put(&Path::from("value/manifest"), format!("{kept}content late\n").into()).await.unwrap();
        Ok(())
    }

    async fn add(&self, permit: &Permit, amount: i64) -> Result<(), Error> {
        let value = <Self as Resource<R>>::value(self).await + amount;
        self.object.publish(permit, value.to_string()).await
    }

    async fn value(&self) -> i64 {
        let Some(content) = self.object.read().await.unwrap() else { return 0 };
        std::str::from_utf8(&content).unwrap().parse().unwrap()
    }

    async fn break_down(&self) {
        self.store.put(&Path::from("value/manifest"), "no manifest".into()).await.unwrap();
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use futures_util::TryStreamExt;
    use leastlock_lease::Refusal;
    use object_store::local::LocalFileSystem;

    use super::*;
    use crate::rig::Sql;
    use crate::world::{fixed, leases, lock};

    type Lock = Sql<sqlx::Sqlite>;

    async fn names(object: &Object) -> Vec<String> {
        let objects: Vec<_> = object.store.list(None).try_collect().await.unwrap();
        let mut names: Vec<_> = objects.into_iter().map(|object| object.location.to_string()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn what_was_replaced_or_refused_is_deleted_and_what_the_dead_left_when_a_newer_holder_seals() {
        let rig = Lock::create().await;
        let object = <Object as Resource<Lock>>::create(&rig).await;
        let late = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        let permit = late.permit().unwrap();
        let unsealed = object.object.publish(&permit, "1").await;
        assert!(matches!(unsealed, Err(Error::Refused { refusal: Refusal::NotSealed, .. })), "{unsealed:?}");
        assert_eq!(names(&object).await, [""; 0]);
        object.object.seal(&permit).await.unwrap();
        for value in ["1", "2"] {
            object.object.publish(&permit, value).await.unwrap();
            assert_eq!(names(&object).await.len(), 2, "the manifest and one content");
        }
        // As a holder leaves it that dies between its content and the manifest.
        let stray = Path::from(format!("value/{:019}-stray", permit.token().value()));
        object.store.put(&stray, "3".into()).await.unwrap();
        rig.expire().await;
        let new = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        object.object.seal(&new.permit().unwrap()).await.unwrap();
        assert_eq!(names(&object).await.len(), 2, "the content that is named stays, whoever has made it");
        assert_eq!(<Object as Resource<Lock>>::value(&object).await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l3_publication_under_way_cannot_overtake_a_seal() {
        let rig = Lock::create().await;
        for _ in 0..20 {
            let object = Arc::new(<Object as Resource<Lock>>::create(&rig).await);
            rig.forget().await;
            let late = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
            object.object.seal(&late.permit().unwrap()).await.unwrap();
            rig.expire().await;
            let new = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
            let permit = late.permit().unwrap();
            let publishing = Arc::clone(&object);
            // It publishes until it is refused; none of that is seen after the seal.
            let publishes = tokio::spawn(async move { while publishing.object.publish(&permit, "1").await.is_ok() {} });
            let permit = new.permit().unwrap();
            object.object.seal(&permit).await.unwrap();
            object.object.publish(&permit, "2").await.unwrap();
            publishes.await.unwrap();
            assert_eq!(<Object as Resource<Lock>>::value(&object).await, 2);
        }
    }

    #[tokio::test]
    async fn a_store_without_conditional_puts_is_an_error_and_nothing_is_published() {
        let rig = Lock::create().await;
        let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        let permit = lease.permit().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let object = FencedObject::new(Arc::new(store), "value").unwrap();
        object.seal(&permit).await.expect("the first manifest is made, not replaced");
        let published = object.publish(&permit, "1").await;
        assert!(matches!(published, Err(Error::ObjectStore { retryable: false, .. })), "{published:?}");
        assert_eq!(object.read().await.unwrap(), None);
    }
}
