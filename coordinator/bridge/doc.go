// Package bridge adapts locks to interfaces that other libraries call. It imports none of
// these libraries.
//
//   - [Migrations] serializes the migrations of goose (lock.Locker and
//     lock.SessionLocker).
//   - [Elector] lets one of several gocron schedulers run the jobs (Elector).
//   - [Run] leads with callbacks, like client-go's leader election.
//
// Package gocronlock, a module of its own, implements gocron's Locker. docs/bridges.md
// has examples to copy for certmagic, suture and tusd.
//
// # Losses
//
// Most of these interfaces have no way to report a lost lock to its holder. Each adapter
// documents what it does instead: it ends a context, calls the function of [OnLost], or
// returns the loss from a later call. A sync.Locker offers none of these, not even an
// error, so it has no adapter: use [coordinator.Lock.Do].
package bridge
