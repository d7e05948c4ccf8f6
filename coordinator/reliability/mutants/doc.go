// Package mutants puts bugs into the library, one at a time, and checks that a
// test finds each of them.
//
// A mutant is a change of the text of a source file. The tree itself is never
// touched: the changed file lies in a temporary folder, and the compiler takes it
// instead of the real one (go build -overlay). So production code knows nothing of
// this, and has no hook, flag or build tag for it.
//
// Three things are checked:
//
//   - each mutant still fits the source (what it replaces occurs exactly once),
//     compiles, and names tests that exist;
//   - those tests pass on the tree as it is;
//   - each of them fails on its mutant. One that does not compile is not found, and
//     one that hangs is found only if the test's own time limit has ended it.
//
// The first takes seconds and is part of every run. The others build the library
// anew for each mutant, which takes half an hour on two cores. They are left
// out with -race and with -short, unless ZKGRANT_MUTANTS is set:
//
//	go test -count=1 -v ./coordinator/reliability/mutants
//	go test -count=1 -v -run 'TestEveryMutantIsFound/mutant/no_claim' ./coordinator/reliability/mutants
//	ZKGRANT_MUTANTS=write go test -count=1 ./coordinator/reliability/mutants
//
// The last of these writes TABLE.md: which test finds which bug, and how fast.
//
// Package recipes has more mutants, of the protocol alone, and an explorer of every
// interleaving that reports them.
//
// Whoever changes the source that a mutant replaces changes the mutant as well. A
// mutant that no test finds any more is a hole in the tests, and no reason to
// remove the mutant.
package mutants
