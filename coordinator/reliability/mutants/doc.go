// Package mutants seeds bugs into the library and checks that a test finds each of them.
//
// The bugs are plain text: each file in testdata lists the source lines that change and
// the tests that then fail. [Parse] documents the format. The source tree is never
// modified. All bugs are woven into one copy of the source, each with a number, and the
// compiler uses that copy instead of the real files (go test -overlay). So each package
// is built once, and an environment variable selects the bug; see [Tree.Weave].
//
// `go test` checks that each bug fits the source and that its tests exist. `make mutants`
// runs the first finder of each bug whose source, test or entry has changed since the
// last `make test-all`, which runs every finder of every bug. A finder must pass without
// its bug and fail with it. A finder that exceeds its time limit counts as failed. The
// limit is a multiple of what tests take without a bug on the same machine.
//
//	ZKGRANT_MUTANTS=1 go test -count=1 -v ./coordinator/reliability/mutants
//	ZKGRANT_MUTANTS=every go test -count=1 -v -run 'TestEverySeededBugIsFound/bug/no_claim' ./coordinator/reliability/mutants
//
// If you change a source line that a bug quotes, change the bug, too. If no test finds a
// bug any more, fix the tests; do not remove the bug.
package mutants
