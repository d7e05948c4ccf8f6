// Package goldentest compares what a test makes with a reviewed and committed file. With the flag -update the test writes the file: read
// the difference before you commit it.
package goldentest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// Compare fails the test unless the file, which is relative to the test's folder, holds what the test got.
func Compare(tb testing.TB, file, got string) {
	tb.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if got != string(want) {
		tb.Errorf("%s is not what was made now; want no difference, got\n%s\nIf that is meant, run the test with -update.",
			file, difference(string(want), got))
	}
}

// difference names the first line that differs.
func difference(want, got string) string {
	old, made := strings.Split(want, "\n"), strings.Split(got, "\n")
	n := 0
	for n < min(len(old), len(made)) && old[n] == made[n] {
		n++
	}
	line := func(all []string) string {
		if n == len(all) {
			return "the end"
		}
		return fmt.Sprintf("%q", all[n])
	}
	return fmt.Sprintf("line %d: %s instead of %s", n+1, line(made), line(old))
}
