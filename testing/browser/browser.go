// Package browser drives a headless Chromium over its debugging pipe, for tests of the status page.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// ErrNone means that this machine has no Chromium.
var ErrNone = errors.New("no chromium, chromium-browser or google-chrome in PATH")

// Browser is a Chromium with one tab.
type Browser struct {
	cmd     *exec.Cmd
	orders  *os.File
	profile string
	session string
	done    chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	events  []Event
	err     error
}

// Event is a notification of the DevTools protocol.
type Event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	Event
}

// Start starts a Chromium with a temporary profile. It returns ErrNone if none is installed.
func Start(ctx context.Context) (*Browser, error) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		return nil, ErrNone
	}
	profile, err := os.MkdirTemp("", "rfsd-chromium-")
	if err != nil {
		return nil, err
	}
	theirIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// No sandbox: tests run as root in containers, and all loaded pages are rfsd's.
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirIn.Close()
	theirOut.Close()
	b := &Browser{cmd: cmd, orders: orders, profile: profile, done: make(chan struct{}), waiting: map[int]chan answer{}}
	go b.read(answers)
	if err := b.attach(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close kills Chromium and removes its profile.
func (b *Browser) Close() {
	b.orders.Close()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	<-b.done
	for range 20 { // its children may still write for a moment
		if os.RemoveAll(b.profile) == nil {
			return
		}
	}
}

func (b *Browser) read(r io.ReadCloser) {
	defer close(b.done)
	defer r.Close()
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes(0)
		var a answer
		if err == nil {
			err = json.Unmarshal(line[:len(line)-1], &a)
		}
		b.mu.Lock()
		if err != nil {
			b.err = fmt.Errorf("chromium: %w", err)
			for _, ch := range b.waiting {
				close(ch)
			}
			b.waiting = map[int]chan answer{}
			b.mu.Unlock()
			return
		}
		if ch := b.waiting[a.ID]; a.ID != 0 && ch != nil {
			delete(b.waiting, a.ID)
			ch <- a
		} else if a.Method != "" {
			b.events = append(b.events, a.Event)
		}
		b.mu.Unlock()
	}
}

// Call sends a command of the DevTools protocol and decodes its result into out, unless nil.
func (b *Browser) Call(ctx context.Context, method string, params, out any) error {
	ch := make(chan answer, 1)
	b.mu.Lock()
	if b.err != nil {
		defer b.mu.Unlock()
		return b.err
	}
	b.next++
	order := map[string]any{"id": b.next, "method": method, "params": params}
	if params == nil {
		order["params"] = map[string]any{}
	}
	if b.session != "" {
		order["sessionId"] = b.session
	}
	b.waiting[b.next] = ch
	b.mu.Unlock()
	line, err := json.Marshal(order)
	if err != nil {
		return err
	}
	if _, err := b.orders.Write(append(line, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case a, ok := <-ch:
		switch {
		case !ok:
			return fmt.Errorf("%s: chromium ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case out != nil:
			return json.Unmarshal(a.Result, out)
		}
		return nil
	}
}

func (b *Browser) attach(ctx context.Context) error {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.Call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	if err := b.Call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session); err != nil {
		return err
	}
	b.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "Accessibility"} {
		if err := b.Call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Open navigates to a page. It may return before the page is loaded; see Wait.
func (b *Browser) Open(ctx context.Context, url string) error {
	var out struct {
		Error string `json:"errorText"`
	}
	if err := b.Call(ctx, "Page.navigate", map[string]any{"url": url}, &out); err != nil {
		return err
	}
	if out.Error != "" {
		return fmt.Errorf("open %s: %s", url, out.Error)
	}
	return nil
}

// Eval evaluates an expression in the page, waits for it if it is a promise, and decodes its value into out.
func (b *Browser) Eval(ctx context.Context, expression string, out any) error {
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	if err := b.Call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got); err != nil {
		return err
	}
	if got.Exception != nil {
		return fmt.Errorf("%s: %s", expression, got.Exception.Text)
	}
	return json.Unmarshal(got.Result.Value, out)
}

// Wait blocks until an expression is true in the page, or until ctx is done.
func (b *Browser) Wait(ctx context.Context, condition string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		err := b.Eval(ctx, "Boolean("+condition+")", &yes)
		if err == nil && yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", condition, ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// Look sets the window's size in pixels and the preferred color scheme.
func (b *Browser) Look(ctx context.Context, width, height int, dark bool) error {
	size := map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}
	if err := b.Call(ctx, "Emulation.setDeviceMetricsOverride", size, nil); err != nil {
		return err
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	features := []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}
	return b.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": features}, nil)
}

// keyCodes are the virtual key codes of the keys that Press accepts.
var keyCodes = map[string]int{"Tab": 9, "Enter": 13, " ": 32}

// Press presses and releases a key: Tab, Enter, or " " for the space bar.
func (b *Browser) Press(ctx context.Context, key string) error {
	order := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": keyCodes[key]}
	switch key {
	case "Enter":
		order["text"] = "\r"
	case " ":
		order["text"], order["code"] = " ", "Space"
	}
	if err := b.Call(ctx, "Input.dispatchKeyEvent", order, nil); err != nil {
		return err
	}
	delete(order, "text")
	order["type"] = "keyUp"
	return b.Call(ctx, "Input.dispatchKeyEvent", order, nil)
}

// Screenshot returns the window as PNG.
func (b *Browser) Screenshot(ctx context.Context) ([]byte, error) {
	var out struct {
		Data string `json:"data"`
	}
	if err := b.Call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &out); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(out.Data)
}

// Events returns the notifications of a method so far.
func (b *Browser) Events(method string) (all []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Method == method {
			all = append(all, e)
		}
	}
	return all
}
