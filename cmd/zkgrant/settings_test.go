package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each global flag is a variable, too, and the command line takes precedence.
func TestEachGlobalFlagIsAVariable(t *testing.T) {
	values := map[string][2]string{"bool": {"true", "false"}, "duration": {"7s", "8s"}, "string": {"text", "other"}}
	var s settings
	newRoot(&s).PersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := values[f.Value.Type()]
		if !ok {
			t.Fatalf("--%s is a %s, which this test knows no value of", f.Name, f.Value.Type())
		}
		t.Setenv("ZKGRANT_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), value[0])
		for _, onTheLine := range []bool{false, true} {
			flags, want := newRoot(&settings{}).PersistentFlags(), value[0]
			if onTheLine {
				want = value[1]
				if err := flags.Set(f.Name, want); err != nil {
					t.Fatal(err)
				}
			}
			if err := fromEnvironment(flags); err != nil {
				t.Fatal(err)
			}
			if got := flags.Lookup(f.Name).Value.String(); got != want {
				t.Errorf("--%s on the command line %t: it is %s, want %s", f.Name, onTheLine, got, want)
			}
		}
	})
}
