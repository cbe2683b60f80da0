//! Tests of the scenes, once per engine.

/// Makes a test of each generic function `async fn test<DB>()`, in a module per engine; `on` says how tokio runs it.
macro_rules! on_each_engine {
    (on $runtime:tt; $($test:ident),+ $(,)?) => {
        $crate::each_engine::on_each_engine!(@ $runtime sqlite Sqlite $($test),+);
        $crate::each_engine::on_each_engine!(@ $runtime postgres Postgres $($test),+);
        $crate::each_engine::on_each_engine!(@ $runtime mysql MySql $($test),+);
    };
    (@ $runtime:tt $module:ident $engine:ident $($test:ident),+) => {
        mod $module {
            $(
                #[tokio::test $runtime]
                async fn $test() {
                    super::$test::<super::$engine>().await;
                }
            )+
        }
    };
}
pub(crate) use on_each_engine;
