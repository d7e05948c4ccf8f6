package gssapi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// patience limits how long a KDC may take if ctx sets no limit.
const patience = 10 * time.Second

// ask sends a request to the KDCs of a realm, one after another, until one answers. Each
// gets an equal share of the remaining time.
func (m *mechanism) ask(ctx context.Context, realm string, request []byte) ([]byte, error) {
	addresses, err := m.kdcs(ctx, realm)
	if err != nil {
		return nil, err
	}
	var failures []error
	for i, address := range addresses {
		limit := patience
		if end, bounded := ctx.Deadline(); bounded {
			limit = time.Until(end) / time.Duration(len(addresses)-i)
		}
		answer, err := talk(ctx, address, request, limit)
		if err == nil && !unavailable(answer) {
			return answer, nil
		}
		if err == nil {
			err = errors.New("it is not available")
		}
		failures = append(failures, fmt.Errorf("%s: %w", address, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("%w: no KDC of %s answers: %w", sasl.ErrTemporary, realm, errors.Join(failures...))
}

// kdcs returns the addresses of a realm's KDCs.
func (m *mechanism) kdcs(ctx context.Context, realm string) (addresses []string, err error) {
	for _, r := range m.config.Realms {
		if r.Realm == realm {
			addresses = append(addresses, r.KDC...)
		}
	}
	if len(addresses) > 0 {
		return addresses, nil
	}
	_, found, err := net.DefaultResolver.LookupSRV(ctx, "kerberos", "tcp", realm)
	if missing := new(net.DNSError); err != nil && (!errors.As(err, &missing) || !missing.IsNotFound) {
		return nil, fmt.Errorf("%w: looking for a KDC of %s: %w", sasl.ErrTemporary, realm, err)
	}
	for _, s := range found {
		addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(s.Target, "."), strconv.Itoa(int(s.Port))))
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: %s names no KDC of %s, nor does DNS", ErrConfig, m.conf, realm)
	}
	return addresses, nil
}

// talk sends a request and returns the answer. If ctx ends, it returns and leaves nothing
// running.
func talk(ctx context.Context, address string, request []byte, limit time.Duration) (answer []byte, err error) {
	const most = 1 << 20
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = conn.Close() // the error of ctx is returned instead
	})
	defer func() {
		if stop() {
			_ = conn.Close() // the answer was read, or an error is returned
		} else {
			<-closed
			err = errors.Join(context.Cause(ctx), err)
		}
	}()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > most {
		return nil, fmt.Errorf("its answer has %d bytes, want 1 to %d", n, most)
	}
	answer = make([]byte, n)
	_, err = io.ReadFull(conn, answer)
	return answer, err
}
