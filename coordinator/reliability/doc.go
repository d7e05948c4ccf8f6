// Package reliability is how the promises of package coordinator are measured.
//
// Its folders break things, each in its own way, and check the promises
// meanwhile:
//
//   - schedules: thousands of seeded schedules of faults in virtual time, frame
//     by frame
//   - faults: real servers that are killed, halted, partitioned or slow
//   - histories: what many workers saw, checked against a model of a fenced
//     mutex, and processes that are halted while they hold a lock
//   - scale: many locks in one process: what each costs, and all of them lost at once
//   - child: a test in a second process, for histories and scale
//   - mutants: bugs put into the library on purpose, and the tests that find them
//
// The tests in them assert what may never happen, such as two valid holders.
// How long something took is no reason to fail; it is reported here, and
// `make reliability` runs all of them at full length and prints the table.
package reliability
