package gssapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	cache "github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// credentials are how a principal gets tickets.
type credentials interface {
	// granting returns a ticket that gets others from the KDC of the client's realm, or
	// the ticket for the peer itself.
	granting(ctx context.Context, m *mechanism, peer principal) (ticket, error)
}

// ticket is a ticket and what its owner knows about it.
type ticket struct {
	client, peer principal
	sealed       messages.Ticket
	key          types.EncryptionKey
	start, end   time.Time
}

// fresh reports whether the ticket lasts long enough for an exchange that begins now.
func (t ticket) fresh(now time.Time) bool {
	const most = time.Minute
	return now.Before(t.end.Add(-min(most, t.end.Sub(t.start)/10)))
}

// keys is a keytab.
type keys struct{ path string }

// of reads the keys of a principal, strongest first.
func (k keys) of(client principal) (table *keytab.Keytab, kinds []int32, err error) {
	table, err = loadKeytab(k.path)
	if err != nil {
		return nil, nil, err
	}
	for _, kind := range [...]int32{
		etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
		etypeID.DES3_CBC_SHA1_KD, etypeID.RC4_HMAC,
	} {
		if _, _, err := table.GetEncryptionKey(client.name, client.realm, 0, kind); err == nil {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil, nil, fmt.Errorf("%w: %s holds no key of %s, but of %s", ErrCredentials, k.path, client, strings.Join(owners(table), ", "))
	}
	return table, kinds, nil
}

func loadKeytab(path string) (table *keytab.Keytab, err error) {
	defer func() {
		if err != nil {
			table, err = nil, fmt.Errorf("%w: keytab %s: %w", ErrCredentials, path, err)
		}
	}()
	defer func() { err = caught(recover(), err) }()
	bytes, err := read(path)
	if err != nil {
		return nil, err
	}
	table = keytab.New()
	if table.Unmarshal(bytes) != nil { // its error may contain the bytes
		return nil, errors.New("it is not a keytab")
	}
	return table, nil
}

// read returns the contents of a file, with no spare capacity: gokrb5 reads past the end
// of a slice. The error does not repeat the name.
func read(path string) ([]byte, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return slices.Clip(bytes), nil
}

// owners returns the principals whose keys are in a keytab.
func owners(table *keytab.Keytab) (names []string) {
	for _, e := range table.Entries {
		if name := e.Principal.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// granting asks the KDC, with the keys that are in the file now.
func (k keys) granting(ctx context.Context, m *mechanism, _ principal) (ticket, error) {
	table, kinds, err := k.of(m.client)
	if err != nil {
		return ticket{}, fmt.Errorf("%w: %w", sasl.ErrTemporary, err) // it was valid before, and is being replaced
	}
	return m.login(ctx, table, kinds)
}

// file is a credential cache.
type file struct{ path string }

// granting returns the cache's ticket for the KDC. If there is no valid one, it returns
// the ticket for the peer, which kinit -S stores.
func (f file) granting(_ context.Context, m *mechanism, peer principal) (ticket, error) {
	c, err := loadCache(f.path)
	if err != nil {
		return ticket{}, fmt.Errorf("%w: %w", sasl.ErrTemporary, err) // it was valid before, and is being replaced
	}
	if found := owner(c); !found.equal(m.client) {
		return ticket{}, fmt.Errorf("%w: the tickets in %s now belong to %s, not to %s", ErrCredentials, f.path, found, m.client)
	}
	now := m.now()
	var old ticket
	for _, server := range [...]principal{granting(m.client.realm, m.client.realm), peer} {
		for _, t := range tickets(c, server) {
			if now.Before(t.end) {
				return t, nil
			}
			if t.end.After(old.end) {
				old = t
			}
		}
	}
	if old.end.IsZero() {
		return ticket{}, fmt.Errorf("%w: %s has no ticket of %s: run kinit", ErrCredentials, f.path, m.client)
	}
	return ticket{}, fmt.Errorf("%w: the ticket of %s in %s expired at %s, it is %s now: run kinit",
		ErrExpired, m.client, f.path, old.end.Format(time.RFC3339), now.Format(time.RFC3339))
}

// tickets returns the tickets for a server.
func tickets(c *cache.CCache, server principal) (found []ticket) {
	for _, e := range c.GetEntries() {
		t := ticket{client: principal{e.Client.PrincipalName, e.Client.Realm}, peer: principal{e.Server.PrincipalName, e.Server.Realm}}
		if t.peer.equal(server) && t.client.equal(owner(c)) && t.sealed.Unmarshal(e.Ticket) == nil {
			t.key, t.start, t.end = e.Key, e.StartTime, e.EndTime
			found = append(found, t)
		}
	}
	return found
}

func owner(c *cache.CCache) principal {
	return principal{c.DefaultPrincipal.PrincipalName, c.DefaultPrincipal.Realm}
}

func loadCache(path string) (c *cache.CCache, err error) {
	defer func() {
		if err != nil {
			c, err = nil, fmt.Errorf("%w: credential cache %s: %w", ErrCredentials, path, err)
		}
	}()
	defer func() { err = caught(recover(), err) }()
	bytes, err := read(path)
	if err != nil {
		return nil, err
	}
	c = new(cache.CCache)
	return c, c.Unmarshal(bytes)
}

// cachePath returns the file of the credential cache with this name.
func cachePath(name string) (string, error) {
	kind, path, typed := strings.Cut(name, ":")
	switch {
	case !typed || strings.ContainsRune(kind, os.PathSeparator):
		return name, nil
	case kind == "FILE":
		return path, nil
	default:
		return "", fmt.Errorf("%w: the credential cache is %s, want one in a file", ErrCredentials, name)
	}
}
