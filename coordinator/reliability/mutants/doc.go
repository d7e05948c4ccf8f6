// Package mutants seeds bugs into the library and checks that a test finds each of them.
//
// The bugs are text: the lists in testdata say which lines of a source file change, and
// which tests fail then. [Parse] has the format. The tree itself is never touched. All
// bugs are woven into one copy of the source, each behind a number, and the compiler
// takes that copy instead of the real files (go test -overlay). So there is one build for
// each package, and an environment variable chooses the bug; see [Tree.Weave].
//
// `go test` checks that each bug fits the source and that its tests exist. `make mutants`
// runs the first finder of each bug, and `make test-all` runs all of them: each finder
// passes without its bug and fails with it. A finder that reaches its time limit counts
// as failed. The limit is a multiple of what tests take without a bug on the same
// machine.
//
//	ZKGRANT_MUTANTS=1 go test -count=1 -v ./coordinator/reliability/mutants
//	ZKGRANT_MUTANTS=every go test -count=1 -v -run 'TestEverySeededBugIsFound/bug/no_claim' ./coordinator/reliability/mutants
//
// A change of a source line that a bug names changes the list, too. A bug that no test
// finds any more is a hole in the tests and no reason to remove the bug.
package mutants
