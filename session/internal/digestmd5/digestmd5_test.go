package digestmd5

import (
	"errors"
	"maps"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheExampleOfTheStandard checks the example of RFC 2831, section 4, for IMAP.
func TestTheExampleOfTheStandard(t *testing.T) {
	terms := Terms{
		User: "chris", Password: "secret", Realm: "elwood.innosoft.com", Nonce: "OA6MG9tEQGm2hh", ClientNonce: "OA6MHXh6VqTrRk",
	}
	for text, want := range map[string]string{
		"AUTHENTICATE:imap/elwood.innosoft.com": "d388dad90d4bbd760a152321f2143af7", // the client's
		":imap/elwood.innosoft.com":             "ea40f60335c427b5527b84dbabcdfffd", // the server's
	} {
		if got := terms.proof(text); got != want {
			t.Errorf("the proof with %s is %s, want %s", text, got, want)
		}
	}
	if terms.Client() == terms.Server() {
		t.Error("both proofs are the same; want each its own")
	}
}

// TestLettersAreHashedByTheirSet: in ISO 8859-1 if that has all of them, and else in
// UTF-8.
func TestLettersAreHashedByTheirSet(t *testing.T) {
	for in, want := range map[string]string{"Zoë": "Zo\xeb", "Łukasz": "Łukasz", "Zoë Ł": "Zoë Ł", "": ""} {
		if got := string(text(in)); got != want {
			t.Errorf("%q goes into the hash as %q, want %q", in, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"": {},
		`realm="zk-sasl-md5",nonce="a,b=c",qop="auth",charset=utf-8,algorithm=md5-sess`: {
			"realm": "zk-sasl-md5", "nonce": "a,b=c", "qop": "auth", "charset": "utf-8", "algorithm": "md5-sess",
		},
		`,, Realm = "a \"b\" \\" ,, nonce=x`: {"realm": `a "b" \`, "nonce": "x"},
		`realm="first",realm="second"`:       {"realm": "first"},
		`empty="",none=`:                     {"empty": "", "none": ""},
	} {
		got, err := Parse(text)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s is read as %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"nonce", `nonce="x`, `nonce="x"y`, `nonce=x y=z`, `nonce="\`} {
		if got, err := Parse(text); !errors.Is(err, errMalformed) {
			t.Errorf("%s is read as %v, %v; want %v", text, got, err, errMalformed)
		}
	}
}

// FuzzParse checks that quoted text is parsed unchanged.
func FuzzParse(f *testing.F) {
	f.Add(`a "b" \ , =`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse("x=" + Quote(text) + ",y=z")
		if err != nil || got["x"] != text || got["y"] != "z" {
			t.Errorf("%q was quoted, and is read as %q, %v", text, got, err)
		}
		_, _ = Parse(text) // without a panic
	})
}
