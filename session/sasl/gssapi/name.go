package gssapi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// host is the placeholder for the host's name in a server's principal.
const host = "_HOST"

// principal is a name in a realm.
type principal struct {
	name  types.PrincipalName
	realm string
}

// parsePrincipal reads name/instance@REALM; the instance and the realm may be missing.
func parsePrincipal(s string) (principal, error) {
	name, realm, _ := strings.Cut(s, "@")
	p := principal{types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name), realm}
	for _, part := range p.name.NameString {
		if part == "" {
			return p, fmt.Errorf("%q is not a principal such as app/host@REALM", s)
		}
	}
	if strings.Contains(realm, "@") || strings.HasSuffix(s, "@") {
		return p, fmt.Errorf("%q is not a principal such as app/host@REALM", s)
	}
	return p, nil
}

func (p principal) String() string { return p.name.PrincipalNameString() + "@" + p.realm }

func (p principal) equal(q principal) bool { return p.name.Equal(q.name) && p.realm == q.realm }

// granting returns the principal of the service that issues tickets for a realm. It may
// be known to the KDC of another realm, at.
func granting(realm, at string) principal {
	return principal{types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}, at}
}

// at returns the principal of the server at a host.
func (p principal) at(name string) principal {
	parts := make([]string, len(p.name.NameString))
	for i, part := range p.name.NameString {
		parts[i] = strings.ReplaceAll(part, host, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return principal{types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: parts}, p.realm}
}

// instance returns the host in a server's principal, or "".
func (p principal) instance() string {
	if len(p.name.NameString) < 2 {
		return ""
	}
	return p.name.NameString[1]
}

// peer returns the principal of the dialed server.
func (m *mechanism) peer(ctx context.Context, server string) (principal, error) {
	name, _, err := net.SplitHostPort(server)
	if err != nil {
		name = server
	}
	if m.canonical {
		if name, err = canonical(ctx, name); err != nil {
			return principal{}, err
		}
	}
	p := m.server.at(name)
	p.realm = cmp.Or(p.realm, m.config.ResolveRealm(p.instance()), m.client.realm)
	return p, nil
}

// canonical looks up the name of a host's address in DNS.
func canonical(ctx context.Context, name string) (string, error) {
	address := name
	if _, err := netip.ParseAddr(name); err != nil {
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", sasl.ErrTemporary, err)
		}
		address = addresses[0]
	}
	names, err := net.DefaultResolver.LookupAddr(ctx, address)
	if err != nil {
		return "", fmt.Errorf("%w: %w", sasl.ErrTemporary, err)
	}
	return names[0], nil
}
