package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCodeLines(t *testing.T) {
	for _, test := range []struct {
		source string
		want   int
	}{
		{"package p\n", 1},
		{"// Package p.\npackage p\n\n/* two\nlines */\n", 1},
		{"package p\n\nfunc f() { // why\n\tg()\n\n\t// why\n\th()\n}\n", 5},
		{"package p\n\nvar s = `one\n\nthree`\n", 4},
		{"package p; var a, b = 1,\n\t2\n", 2},
	} {
		if got := codeLines([]byte(test.source)); got != test.want {
			t.Errorf("codeLines(%q) = %d, want %d", test.source, got, test.want)
		}
	}
}
