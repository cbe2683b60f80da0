//! Leases over TLS, and all who must not have one, on servers of the tests' own.

mod authority;
mod etcd;
mod postgres;
mod redis;
mod world;
mod zookeeper;
