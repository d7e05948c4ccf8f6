package main

import (
	"errors"
	"slices"
	"testing"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, values := range [][]int64{nil, {0}, {1, -2, 1 << 62}} {
		got, err := parseAnswer(formatAnswer(values, nil))
		if err != nil || !slices.Equal(got, values) {
			t.Errorf("the answer %v became %v, %v", values, got, err)
		}
	}
	line := formatAnswer([]int64{1}, errors.New("no way\n  out"))
	if line != "no no way out" {
		t.Errorf("an error in two lines became %q, want one line", line)
	}
	if _, err := parseAnswer(line); !errors.Is(err, errRefused) {
		t.Errorf("parseAnswer(%q): %v, want %v", line, err, errRefused)
	}
	for _, bad := range []string{"", "okay 1", "ok x", "ok 1.5", "Exception in thread main"} {
		if _, err := parseAnswer(bad); err == nil || errors.Is(err, errRefused) {
			t.Errorf("parseAnswer(%q): %v; want an error other than a refusal", bad, err)
		}
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	for _, q := range []question{
		{verb: askCycle, path: "/a/b", n: 12},
		{verb: askMany, path: "/a", n: 64, also: 3},
	} {
		if got, err := parseQuestion(q.String()); err != nil || got != q {
			t.Errorf("the question %+v became %+v, %v", q, got, err)
		}
	}
	if got, err := parseQuestion(question{verb: askClose}.String()); err != nil || got.verb != askClose {
		t.Errorf("the question of one word became %+v, %v", got, err)
	}
	for _, bad := range []string{"", "cycle", "cycle /a", "cycle /a b 0"} {
		if got, err := parseQuestion(bad); err == nil {
			t.Errorf("parseQuestion(%q) = %+v, want an error", bad, got)
		}
	}
}
