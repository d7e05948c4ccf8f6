package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// limit is how long a page may take for one action.
const limit = 2 * time.Minute

// View is how the browser shows a page.
type View struct {
	Width, Height int64 // in CSS pixels; 1280 and 800 by default
	Dark          bool  // the user prefers dark colours
	Still         bool  // the user prefers reduced motion
	Phone         bool  // a touch screen with a device pixel ratio of 3
}

// Page is an open page. Its methods fail the test if the page does not answer.
type Page struct {
	tb  testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string
	errors   []string
}

// Open opens a page and waits until it is loaded. It is closed when the test ends.
func Open(tb testing.TB, url string, view View) *Page {
	tb.Helper()
	ctx, cancel := chromedp.NewContext(shared.context(tb), chromedp.WithNewBrowserContext())
	p := &Page{tb: tb, ctx: ctx}
	tb.Cleanup(cancel)
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		tb.Fatalf("opening a page: %v", err)
	}
	if view.Width == 0 {
		view.Width, view.Height = 1280, 800
	}
	p.run("opening "+url, call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
		emulate(view), chromedp.Navigate(url))
	return p
}

func emulate(view View) chromedp.Action[chromedp.Void] {
	scheme, motion, scale := "light", "no-preference", 1.0
	if view.Dark {
		scheme = "dark"
	}
	if view.Still {
		motion = "reduce"
	}
	if view.Phone {
		scale = 3
	}
	return chromedp.Steps(
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: view.Width, Height: view.Height, DeviceScaleFactor: scale, Mobile: view.Phone,
		}),
		call(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: view.Phone}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}),
	)
}

// call wraps a protocol command as an action.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		p.requests = append(p.requests, e.URL)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		p.errors = append(p.errors, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var words []string
			for _, arg := range e.Args {
				words = append(words, string(arg.Value)+arg.Description)
			}
			p.errors = append(p.errors, strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.errors = append(p.errors, strings.TrimSpace(e.Entry.Text+" "+e.Entry.URL))
		}
	}
}

// run runs actions on the page. what names them in the failure.
func (p *Page) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.tb.Helper()
	if err := p.try(actions...); err != nil {
		p.tb.Fatalf("%s: %v", what, err)
	}
}

func (p *Page) try(actions ...chromedp.Action[chromedp.Void]) error {
	patient, cancel := eventstest.Patient(limit)
	defer cancel()
	ctx, over := context.WithCancelCause(p.ctx)
	defer over(nil)
	defer context.AfterFunc(patient, func() { over(context.Cause(patient)) })()
	if err := chromedp.Do(ctx, actions...); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("the page: %w", err)
	}
	return nil
}

// Requests returns the URLs of all requests of the page: itself, files, fetches, event
// streams and sockets, including data: URLs.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Errors returns the page's errors: exceptions, console.error, refused requests, and
// violations of its content security policy.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.errors...)
}

// Eval evaluates an expression, awaiting a promise, and decodes its value as JSON into
// value. A nil value discards it.
func (p *Page) Eval(expression string, value any) {
	p.tb.Helper()
	if err := p.eval(expression, value); err != nil {
		p.tb.Fatalf("%s: %v", expression, err)
	}
}

// Value evaluates an expression as Eval does, and returns its value.
func Value[T any](p *Page, expression string) (value T) {
	p.tb.Helper()
	p.Eval(expression, &value)
	return value
}

func (p *Page) eval(expression string, value any) error {
	var text string
	err := p.try(get(chromedp.Evaluate[string]("(async () => JSON.stringify(await ("+expression+")) ?? 'null')()", chromedp.EvalAwaitPromise), &text))
	if err != nil || value == nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("its value %s: %w", text, err)
	}
	return nil
}

// Until waits until the expression is true. what names the condition in the failure,
// which also shows the text of the page.
func (p *Page) Until(what, expression string) {
	p.tb.Helper()
	var last error
	eventstest.Eventually(p.tb, what, func() bool {
		var holds bool
		last = p.eval("Boolean("+expression+")", &holds)
		return holds
	}, func() string {
		var text string
		err := p.eval("document.body.innerText", &text)
		return fmt.Sprintf("%s is false (%v); the page says (%v):\n%s\nerrors: %q", expression, last, err, text, p.Errors())
	})
}

// Text returns the visible text of the first element that the CSS selector matches.
func (p *Page) Text(selector string) string {
	p.tb.Helper()
	quoted, err := json.Marshal(selector)
	eventstest.Must(p.tb, err)
	return Value[string](p, "document.querySelector("+string(quoted)+").innerText")
}

// Press presses keys one by one. Each is a rune of a text, or one from package
// chromedp/kb, such as kb.ArrowDown.
func (p *Page) Press(keys string) {
	p.tb.Helper()
	p.run("pressing "+fmt.Sprintf("%q", keys), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, key := range keys {
			for _, event := range strokes(key) {
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *event); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// Click clicks on the first element that the CSS selector matches, once its middle is
// visible. It takes one step of the page: a notice that appears between a search for the
// element and a click at its place would move it away.
func (p *Page) Click(selector string) {
	p.tb.Helper()
	quoted, err := json.Marshal(selector)
	eventstest.Must(p.tb, err)
	p.Until("it can be clicked: "+selector, `((e) => {
		if (!e) return false;
		e.scrollIntoView({block: "nearest", behavior: "instant"});
		const box = e.getBoundingClientRect();
		if (!e.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2))) return false;
		e.focus();
		e.click();
		return true;
	})(document.querySelector(`+string(quoted)+`))`)
}

// Look changes the view.
func (p *Page) Look(view View) {
	p.tb.Helper()
	p.run("changing the view", emulate(view))
}

// Screenshot returns a PNG of the visible part of the page.
func (p *Page) Screenshot() []byte {
	p.tb.Helper()
	var picture []byte
	p.run("taking a picture", get(chromedp.CaptureScreenshot(), &picture))
	return picture
}

// get stores the result of an action.
func get[T any](action chromedp.Action[T], value *T) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		*value, err = action(ctx, t)
		return err
	})
}

// strokes returns the events that a real keyboard causes. Pressing a key types its text,
// so a page that prevents the press also prevents the text.
func strokes(key rune) (all []*input.DispatchKeyEventParams) {
	for _, event := range kb.Encode(key) {
		if event.Type == kb.KeyChar {
			all[0].Type, all[0].Text, all[0].UnmodifiedText = input.DispatchKeyEventTypeKeyDown, event.Text, event.UnmodifiedText
			continue
		}
		all = append(all, event)
	}
	return all
}
