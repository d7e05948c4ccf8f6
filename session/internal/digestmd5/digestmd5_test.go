package digestmd5

import (
	"maps"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
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
		eventstest.Equal(t, terms.proof(text), want, "the proof with %s", text)
	}
	eventstest.Expect(t, terms.Client() != terms.Server(), "both proofs are the same; want each its own")
}

// TestLettersAreHashedByTheirSet: in ISO 8859-1 if that has all of them, and else in
// UTF-8.
func TestLettersAreHashedByTheirSet(t *testing.T) {
	for in, want := range map[string]string{"Zoë": "Zo\xeb", "Łukasz": "Łukasz", "Zoë Ł": "Zoë Ł", "": ""} {
		eventstest.Equal(t, string(text(in)), want, "%q goes into the hash as", in)
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
		eventstest.Expect(t, err == nil && maps.Equal(got, want),
			"%s is read as %v, %v; want %v", text, got, err, want)
	}
	for _, text := range []string{"nonce", `nonce="x`, `nonce="x"y`, `nonce=x y=z`, `nonce="\`} {
		got, err := Parse(text)
		eventstest.ErrorIs(t, err, errMalformed, "%s is read as %v", text, got)
	}
}

// FuzzParse checks that quoted text is parsed unchanged.
func FuzzParse(f *testing.F) {
	f.Add(`a "b" \ , =`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse("x=" + Quote(text) + ",y=z")
		eventstest.Expect(t, err == nil && got["x"] == text && got["y"] == "z",
			"%q was quoted, and is read as %q, %v", text, got, err)
		_, _ = Parse(text) // without a panic
	})
}
