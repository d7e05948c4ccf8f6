package bridges

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

var _ handler.Lock = (*bridge.Upload)(nil)

// locker is a bridge.Uploads for tusd.
type locker struct{ *bridge.Uploads }

// NewLock implements handler.Locker.
func (l locker) NewLock(id string) (handler.Lock, error) { return l.Uploads.NewLock(id) }

// tusServer serves uploads as one process, and returns its address.
func tusServer(s stage, dir string, c *coordinator.Coordinator, options ...bridge.Option) string {
	s.Helper()
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	composer.UseLocker(locker{bridge.NewUploads(c, "/uploads", time.Minute, options...)})
	tus, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		AcquireLockTimeout: time.Minute, GracefulRequestCompletionTimeout: 100 * time.Millisecond, // for which it keeps a goroutine
	})
	eventstest.Must(s, err)
	server := httptest.NewServer(http.StripPrefix("/files/", tus))
	s.Cleanup(server.Close)
	return server.URL + "/files/"
}

// send makes a request of the protocol, and returns the answer with its body already read.
func send(s stage, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.within(), method, url, body)
	eventstest.Must(s, err)
	request.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Error(err)
		return &http.Response{}, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer, string(text)
}

// stalled is a body of which the last part never comes.
type stalled struct {
	*io.PipeReader
	rest *io.PipeWriter
}

func newStalled() stalled {
	reader, writer := io.Pipe()
	go func() { _, _ = writer.Write([]byte("hello")) }()
	return stalled{reader, writer}
}

// received waits until the first part of the upload is stored. Before that, tusd does not end a request that was asked to unlock.
func (s stage) received(dir, id string) {
	s.Helper()
	eventstest.Eventually(s, "the first part is stored", func() bool {
		file, err := os.Stat(filepath.Join(dir, id))
		return err == nil && file.Size() == 5
	})
}

// TestTusdInterruptsAnUpload: a second request, to another process, ends the stalled first one, and goes on where it was.
func TestTusdInterruptsAnUpload(t *testing.T) {
	t.Parallel()
	play := func(s stage) {
		s.Cleanup(http.DefaultClient.CloseIdleConnections)
		dir, first := s.TempDir(), s.process()
		here, there := tusServer(s, dir, first), tusServer(s, dir, s.process())
		created, _ := send(s, http.MethodPost, here, nil, "Upload-Length", "10")
		id := created.Header.Get("Location")[len(here):]

		type answer struct {
			status int
			text   string
		}
		ended, body := make(chan answer, 1), newStalled()
		defer body.rest.Close()
		go func() {
			a, text := send(s, http.MethodPatch, here+id, body, "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream")
			ended <- answer{a.StatusCode, text}
		}()
		s.received(dir, id)

		head, _ := send(s, http.MethodHead, there+id, nil)
		offset := head.Header.Get("Upload-Offset")
		if head.StatusCode != http.StatusOK {
			s.Fatalf("HEAD in the other process: %s, want 200", head.Status)
		}
		if a := <-ended; a.status != http.StatusBadRequest || !strings.Contains(a.text, "ERR_UPLOAD_INTERRUPTED") {
			s.Errorf("the interrupted request is answered %d %q, want ERR_UPLOAD_INTERRUPTED", a.status, a.text)
		}
		if offset != "5" {
			s.Errorf("the offset is %s, want 5", offset)
		}
		patch, text := send(s, http.MethodPatch, there+id, strings.NewReader(" you!"),
			"Upload-Offset", offset, "Content-Type", "application/offset+octet-stream")
		if patch.StatusCode != http.StatusNoContent || patch.Header.Get("Upload-Offset") != "10" {
			s.Errorf("the rest is answered %s %q, want 204 and the offset 10", patch.Status, text)
		}
		s.queued(first.Mutex(bridge.Path("/uploads", id)), 0)
	}
	overTCP(t, play)
	onARealServer(t, play)
}

// TestTusdEndsALostUpload: the request is interrupted, and OnLost gives the reason.
func TestTusdEndsALostUpload(t *testing.T) {
	t.Parallel()
	play := func(s stage) {
		s.Cleanup(http.DefaultClient.CloseIdleConnections)
		c, lost := s.process(), make(chan error, 1)
		dir := s.TempDir()
		here := tusServer(s, dir, c, bridge.OnLost(func(err error) { lost <- err }))
		created, _ := send(s, http.MethodPost, here, nil, "Upload-Length", "10")
		url := created.Header.Get("Location")
		id := url[len(here):]
		ended, body := make(chan string, 1), newStalled()
		defer body.rest.Close()
		go func() {
			_, text := send(s, http.MethodPatch, url, body, "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream")
			ended <- text
		}()
		s.received(dir, id)
		s.lose(c, bridge.Path("/uploads", id))
		if err := <-lost; !isLoss(err) {
			s.Errorf("OnLost says %v, want the loss", err)
		}
		if text := <-ended; !strings.Contains(text, "ERR_UPLOAD_INTERRUPTED") {
			s.Errorf("the request is answered %q, want ERR_UPLOAD_INTERRUPTED", text)
		}
	}
	overTCP(t, play)
	onARealServer(t, play)
}
