package gssapi

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// TestARestrictedRuntimeNeverPanics: with GODEBUG=fips140=only Go's own packages panic over SHA-1.
func TestARestrictedRuntimeNeverPanics(t *testing.T) {
	const setting = "GODEBUG=fips140=only"
	if os.Getenv("ZKGRANT_RESTRICTED") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		child.Env = append(os.Environ(), setting, "ZKGRANT_RESTRICTED=1")
		if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("the process has ended with %v, want an error of the exchange:\n%s", err, out)
		}
		return
	}
	for kind, length := range map[int32]int{etypeID.AES256_CTS_HMAC_SHA1_96: 32, etypeID.AES128_CTS_HMAC_SHA1_96: 16} {
		bob, server := principal{types.NewPrincipalName(1, "bob"), realm}, principal{types.NewPrincipalName(1, "zookeeper/zk1"), realm}
		key := types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, length)}
		m := &mechanism{config: config.New(), client: bob, now: noon, kept: map[string]ticket{}}
		sealed := messages.Ticket{TktVNO: 5, Realm: realm, SName: server.name, EncPart: types.EncryptedData{EType: kind, Cipher: []byte("sealed")}}
		e := &exchange{mechanism: m, peer: server, ticket: ticket{client: bob, peer: server, sealed: sealed, key: key, start: noon(), end: noon().Add(time.Hour)}}
		if _, _, err := e.Next(nil); !errors.Is(err, sasl.ErrRestricted) || !strings.Contains(err.Error(), "FIPS 140-only mode") {
			t.Errorf("an exchange with a key of type %d: %v, want an error that names %s", kind, err, setting)
		}
	}
}
