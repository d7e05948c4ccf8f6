package session

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseConnectString(t *testing.T) {
	for _, c := range []struct {
		in     string
		hosts  string // comma separated
		chroot string
	}{
		{"h", "h:2181", ""},
		{"h:2182", "h:2182", ""},
		{"h1:1,h2:65535", "h1:1,h2:65535", ""},
		{"h1,h2,h3", "h1:2181,h2:2181,h3:2181", ""},
		{"  h1:2181 ,\th2:2182 , h3\n", "h1:2181,h2:2182,h3:2181", ""},
		{"h/", "h:2181", ""},
		{"h/app", "h:2181", "/app"},
		{"h1:2181,h2:2182/a/b/c", "h1:2181,h2:2182", "/a/b/c"},
		{"h1,h2 /a b", "h1:2181,h2:2181", "/a b"},
		{"h/app ", "h:2181", "/app"},
		{"h/..a/.b/c.", "h:2181", "/..a/.b/c."},
		{"h/ä:1", "h:2181", "/ä:1"},
		{"127.0.0.1", "127.0.0.1:2181", ""},
		{"127.0.0.1:2182/x", "127.0.0.1:2182", "/x"},
		{"[::1]", "[::1]:2181", ""},
		{"[::1]:2182", "[::1]:2182", ""},
		{"[0:0::1]:2182/x", "[::1]:2182", "/x"},
		{"[fe80::1%eth0]", "[fe80::1%eth0]:2181", ""},
		{"h1:2181,h2,[::1]:2181/chroot/path", "h1:2181,h2:2181,[::1]:2181", "/chroot/path"},
		{"h,h:2181,H,h:2182", "h:2181,h:2182", ""},
		{"[::1],[0::1]:2181", "[::1]:2181", ""},
		{"zk_1.my-net.example.com.", "zk_1.my-net.example.com.:2181", ""},
		{"h:02181", "h:2181", ""},
	} {
		got, err := ParseConnectString(c.in)
		want := Servers{Hosts: strings.Split(c.hosts, ","), Chroot: c.chroot}
		expect(t, err == nil && reflect.DeepEqual(got, want),
			"ParseConnectString(%q) = %+v, %v; want %+v", c.in, got, err, want)
	}
}

func TestParseConnectStringRefuses(t *testing.T) {
	for says, texts := range map[string][]string{
		"no host":               {"", "  \t", "/app", " /app"},
		`host 1 ""`:             {",", ",h1"},
		"host 2":                {"h1,,h2", "h1,"},
		`port ""`:               {"h:", "[::1]:"},
		`port "0"`:              {"h:0"},
		"65536":                 {"h:65536"},
		`"-1"`:                  {"h:-1"},
		`"+1"`:                  {"h:+1"},
		`"2181x"`:               {"h:2181x"},
		`" 2181"`:               {"h: 2181"},
		"empty host name":       {":2181"},
		`' '`:                   {"h h:2181"},
		"has a scheme":          {"zk://h:2181"},
		`'@'`:                   {"user@h"},
		"brackets":              {"::1", "::1:2181"},
		"not closed":            {"[::1"},
		"after the bracket":     {"[::1]2181"},
		"IPv6":                  {"[127.0.0.1]:2181", "[h]:2181", "[]", "[::1%a b]"},
		`']'`:                   {"h]:1"},
		"part of the host name": {"a..b", "."},
		"longer than 63":        {strings.Repeat("a", 64)},
		"more than 253":         {strings.Repeat("a.", 127) + "b"},
		"after the last host":   {"h:2181/app,h2:2181", "h1/a,h2/a"},
	} {
		for _, in := range texts {
			got, err := ParseConnectString(in)
			expect(t, errors.Is(err, ErrConnectString) && strings.Contains(err.Error(), says),
				"ParseConnectString(%q) = %+v, %v; want an ErrConnectString that says %q", in, got, err, says)
		}
	}
	for _, in := range []string{"h//", "h//a", "h/a/", "h/a//b", "h/.", "h/a/..", "h/\x00", "h/\xff"} {
		if _, err := ParseConnectString(in); !errors.Is(err, ErrConnectString) || !errors.Is(err, ErrPath) {
			t.Errorf("ParseConnectString(%q): %v; want ErrConnectString and ErrPath", in, err)
		}
	}
}

func TestValidatePath(t *testing.T) {
	for _, path := range []string{
		"/", "/a", "/a/b", "/zookeeper/quota", "/...", "/.a", "/a.", "/..a", "/a..b", "/a/.../b", "/ ", "/a b", "/a,b", "/%", "/ü", "/日本",
		"/\u007e", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/_c_0123-lock-0000000001",
	} {
		if err := ValidatePath(path); err != nil {
			t.Errorf("ValidatePath(%q): %v", path, err)
		}
	}
	for says, paths := range map[string][]string{
		"empty":                             {""},
		"start with a slash":                {"a", "a/b", " /a"},
		"ends with a slash":                 {"//", "/a/"},
		"empty component at byte 1":         {"//a"},
		"empty component at byte 3":         {"/a//b"},
		`relative component "." at byte 1`:  {"/."},
		`relative component ".." at byte 1`: {"/.."},
		`relative component "." at byte 3`:  {"/a/./b"},
		`relative component ".." at byte 3`: {"/a/../b"},
		`relative component ".." at byte 5`: {"/a/b/.."},
		"U+0000 at byte 1":                  {"/\x00"},
		"U+0001 at byte 2":                  {"/a\x01"},
		"U+FFFD":                            {"/\ufffd", "/\xff", "/\xed\xa0\x80"},
	} {
		for _, path := range paths {
			if err := ValidatePath(path); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), says) {
				t.Errorf("ValidatePath(%q): %v; want an ErrPath that says %q", path, err, says)
			}
		}
	}
	for _, r := range "\x1f\x7f\u0080\u009f\ue000\uf8ff\ufff0\uffff\U00010000\U0001F512" {
		says := fmt.Sprintf("%U", r)
		if err := ValidatePath("/" + string(r)); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), says) {
			t.Errorf("a path with %s: %v; want an ErrPath that says so", says, err)
		}
	}
}

func FuzzParseConnectString(f *testing.F) {
	for _, s := range []string{"h", "h1:1,h2/a/b", "[::1]:1,[fe80::1%eth0]", " a , b:2 /c", "h/..", "[::", ":,", "h:2181/app,h2:2181"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseConnectString(s)
		if err != nil {
			if !errors.Is(err, ErrConnectString) {
				t.Fatalf("%q: %v is no ErrConnectString", s, err)
			}
			return
		}
		again, err := ParseConnectString(got.String())
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%q is %+v, written %q, read again %+v, %v", s, got, got, again, err)
		}
		if len(got.Hosts) == 0 {
			t.Fatalf("%q accepted without a host", s)
		}
		if got.Chroot != "" && ValidatePath(got.Chroot) != nil {
			t.Fatalf("%q accepted with chroot %q", s, got.Chroot)
		}
	})
}
