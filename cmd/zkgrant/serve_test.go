//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// pipes is a listener for in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, open := <-p; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// An idle connection is closed, but not one with a page that streams for hours.
func TestIdleConnectionsAreClosed(t *testing.T) {
	const long = 10 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		listener, served := make(pipes), make(chan error)
		go func() {
			served <- serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				time.Sleep(long)
				_, err := io.WriteString(w, "the end")
				eventstest.Check(t, errors.Join(err, r.Context().Err()))
			}))
		}()
		near, far := net.Pipe()
		listener <- far
		_, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		eventstest.Must(t, err)
		from := bufio.NewReader(near)
		page, err := http.ReadResponse(from, nil)
		eventstest.Must(t, err)
		if text, err := io.ReadAll(page.Body); err != nil || string(text) != "the end" {
			t.Errorf("a page that took %v has %q (%v), want its end", long, text, err)
		}
		begun := time.Now()
		eventstest.Check(t, near.SetReadDeadline(begun.Add(long)))
		if _, err := from.ReadByte(); !errors.Is(err, io.EOF) || time.Since(begun) != idle {
			t.Errorf("after %v the idle connection ends with %v, want its end after %v", time.Since(begun), err, idle)
		}
		eventstest.Check(t, near.Close())
		cancel()
		eventstest.Check(t, <-served)
	})
}

// A page for this machine only is served under each of the machine's own names, with and
// without a port.
func TestOwnNames(t *testing.T) {
	page := local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": http.StatusOK, "localhost:80": http.StatusOK, "127.0.0.1": http.StatusOK, "127.0.0.1:8080": http.StatusOK,
		"[::1]": http.StatusOK, "[::1]:8080": http.StatusOK,
		"": http.StatusMisdirectedRequest, "evil.example": http.StatusMisdirectedRequest, "evil.example:80": http.StatusMisdirectedRequest,
		"[2001:db8::1]": http.StatusMisdirectedRequest, "[localhost.evil.example]": http.StatusMisdirectedRequest, "10.0.0.1": http.StatusMisdirectedRequest,
	} {
		request, answer := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		request.Host = host
		page.ServeHTTP(answer, request)
		eventstest.Equal(t, answer.Code, want, "the answer for %q", host)
	}
}
