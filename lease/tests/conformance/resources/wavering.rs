//! L22 at an object: puts that take effect and are not answered, or are answered wrongly because a client has sent them twice.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::stream::BoxStream;
use leastlock_lease::{CorrectnessLease, Ending, Error, FencedObject, Refusal, Released, WorkError};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sqlx::Sqlite;

use crate::rig::{Rig, Sql};
use crate::world::{fixed, leases, lock};

/// What becomes of the answer to the next put of the manifest. The put takes effect.
#[derive(Debug)]
enum Answer {
    Lost,
    /// The client has sent it once more, and is told that the manifest is another one by now, which is its own. Meanwhile another
    /// holder has sealed, if there is one.
    Repeated(Option<CorrectnessLease>),
}

/// A store that gives such an answer once.
#[derive(Debug)]
struct Wavering {
    store: Arc<InMemory>,
    next: Mutex<Option<Answer>>,
}

type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl ObjectStore for Wavering {
    fn put_opts<'s, 'p, 'a>(
        &'s self,
        location: &'p Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Answered<'a, PutResult>
    where
        's: 'a,
        'p: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let put = self.store.put_opts(location, payload, opts).await?;
            let is_manifest = location.filename() == Some("manifest");
            let answer = is_manifest.then(|| self.next.lock().unwrap().take()).flatten();
            match answer {
                None => Ok(put),
                Some(Answer::Lost) => {
                    Err(object_store::Error::Generic { store: "wavering", source: "no answer".into() })
                }
                Some(Answer::Repeated(newer)) => {
                    if let Some(newer) = newer {
                        object(&self.store).seal(&newer.permit().unwrap()).await.unwrap();
                    }
                    let path = location.to_string();
                    Err(object_store::Error::Precondition { path, source: "it is another one by now".into() })
                }
            }
        })
    }

    fn put_multipart_opts<'s, 'p, 'a>(
        &'s self,
        location: &'p Path,
        opts: PutMultipartOptions,
    ) -> Answered<'a, Box<dyn MultipartUpload>>
    where
        's: 'a,
        'p: 'a,
        Self: 'a,
    {
        self.store.put_multipart_opts(location, opts)
    }

    fn get_opts<'s, 'p, 'a>(&'s self, location: &'p Path, options: GetOptions) -> Answered<'a, GetResult>
    where
        's: 'a,
        'p: 'a,
        Self: 'a,
    {
        self.store.get_opts(location, options)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_delimiter<'s, 'p, 'a>(&'s self, prefix: Option<&'p Path>) -> Answered<'a, ListResult>
    where
        's: 'a,
        'p: 'a,
        Self: 'a,
    {
        self.store.list_with_delimiter(prefix)
    }

    fn copy_opts<'s, 'p, 'q, 'a>(&'s self, from: &'p Path, to: &'q Path, options: CopyOptions) -> Answered<'a, ()>
    where
        's: 'a,
        'p: 'a,
        'q: 'a,
        Self: 'a,
    {
        self.store.copy_opts(from, to, options)
    }
}

impl fmt::Display for Wavering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that wavers")
    }
}

fn object(store: &Arc<InMemory>) -> FencedObject {
    FencedObject::new(Arc::clone(store) as Arc<dyn ObjectStore>, "value").unwrap()
}

async fn contents(store: &InMemory) -> usize {
    store.list_with_delimiter(Some(&Path::from("value"))).await.unwrap().objects.len() - 1
}

/// A holder that has sealed, and a value of its; the next put of the manifest is answered so.
struct World {
    rig: Sql<Sqlite>,
    store: Arc<InMemory>,
    lease: CorrectnessLease,
    wavering: Arc<Wavering>,
}

impl World {
    async fn new() -> Self {
        let (rig, store) = (Sql::<Sqlite>::create().await, Arc::new(InMemory::new()));
        let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        let permit = lease.permit().unwrap();
        object(&store).seal(&permit).await.unwrap();
        object(&store).publish(&permit, "0").await.unwrap();
        let wavering = Arc::new(Wavering { store: Arc::clone(&store), next: Mutex::default() });
        Self { rig, store, lease, wavering }
    }

    fn answers(&self, answer: Answer) -> FencedObject {
        *self.wavering.next.lock().unwrap() = Some(answer);
        FencedObject::new(Arc::clone(&self.wavering) as Arc<dyn ObjectStore>, "value").unwrap()
    }

    async fn read(&self) -> std::result::Result<String, Error> {
        let content = object(&self.store).read().await?.unwrap();
        Ok(String::from_utf8(content.to_vec()).unwrap())
    }
}

/// The mistake: what was not answered did not happen.
async fn publishes_carelessly(store: &dyn ObjectStore, value: &'static str) {
    let (content, manifest) = (Path::from("value/careless"), Path::from("value/manifest"));
    store.put(&content, value.into()).await.unwrap();
    let text = store.get(&manifest).await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let kept: String = text.split_inclusive('\n').filter(|line| !line.starts_with("content ")).collect();
    if store.put(&manifest, format!("{kept}content careless\n").into()).await.is_err() {
        store.delete(&content).await.unwrap();
    }
}

mod sqlite {
    use super::*;

    #[tokio::test]
    async fn l22_publication_that_was_not_answered_is_unknown_and_loses_nothing() {
        let world = World::new().await;
        let (object, permit) = (world.answers(Answer::Lost), world.lease.permit().unwrap());
        let published = object.publish(&permit, "1").await;
        assert!(matches!(published, Err(Error::ObjectStore { retryable: true, .. })), "{published:?}");
        assert_eq!(world.read().await.unwrap(), "1", "it took effect, and readers have the whole of it");
        object.publish(&permit, "2").await.unwrap();
        assert_eq!((world.read().await.unwrap(), contents(&world.store).await > 0), ("2".to_owned(), true));

        let careless = world.answers(Answer::Lost);
        publishes_carelessly(world.wavering.as_ref(), "3").await;
        let read = careless.read().await;
        assert!(matches!(read, Err(Error::ObjectStore { .. })), "the double's readers find nothing: {read:?}");
    }

    #[tokio::test]
    async fn l22_publication_that_was_not_answered_leaves_the_lease_to_expire() {
        for (judge, released) in [(WorkError::from as fn(Error) -> WorkError, false), (WorkError::known, true)] {
            let world = World::new().await;
            let object = world.answers(Answer::Lost);
            let work = async |scope: leastlock_lease::Scope| {
                let permit = scope.permit()?;
                object.publish(&permit, "1").await.map_err(judge)
            };
            let finished = world.lease.run_to_end(work).await;
            assert!(matches!(finished.result, Err(Error::ObjectStore { .. })), "{:?}", finished.result);
            assert_eq!(finished.ending == Ending::Released(Released::Released), released);
            assert_eq!(world.rig.look().await.released, released);
        }
    }

    #[tokio::test]
    async fn l22_publication_whose_repeat_finds_itself_has_been_made() {
        let world = World::new().await;
        let permit = world.lease.permit().unwrap();
        world.answers(Answer::Repeated(None)).publish(&permit, "1").await.expect("it finds itself in the manifest");
        assert_eq!(world.read().await.unwrap(), "1");
    }

    #[tokio::test]
    async fn l22_publication_whose_repeat_finds_itself_under_a_newer_seal_has_been_made_and_stays() {
        let world = World::new().await;
        world.rig.expire().await;
        let newer = leases(&world.rig).acquire(&lock(), fixed()).await.unwrap();
        let permit = world.lease.permit().unwrap();
        let object = world.answers(Answer::Repeated(Some(newer)));
        object.publish(&permit, "1").await.expect("it was made before the seal, which keeps what stands there");
        assert_eq!(world.read().await.unwrap(), "1");
        // From the seal on it is the late one.
        let late = object.publish(&permit, "2").await;
        assert!(matches!(late, Err(Error::Refused { refusal: Refusal::Superseded { .. }, .. })), "{late:?}");
        assert_eq!((world.read().await.unwrap(), contents(&world.store).await), ("1".to_owned(), 1));
    }
}
