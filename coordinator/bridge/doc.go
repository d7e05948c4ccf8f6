// Package bridge fits locks into the interfaces that other libraries call. It imports
// none of these libraries.
//
//   - [Migrations] serializes the migrations of goose (lock.Locker and
//     lock.SessionLocker).
//   - [Elector] lets one of several gocron schedulers run the jobs (Elector).
//   - [Run] leads with callbacks, as client-go's leader election does.
//
// Package gocronlock, a module of its own, has gocron's Locker. docs/bridges.md has
// examples to copy for certmagic, suture and tusd.
//
// # Losses
//
// Most of these interfaces cannot tell a holder that its lock is lost. Each adapter says
// what it does instead: it ends a context, calls the function of [OnLost], or returns the
// loss from a later call. A sync.Locker has nothing of that, not even an error, so there
// is no adapter for it: use [coordinator.Lock.Do].
package bridge
