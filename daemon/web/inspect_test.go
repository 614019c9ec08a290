package web_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rfsd/rfsd/testing/browser"
)

// inspect looks at the page that is open on a desktop and a phone, light and dark: it keeps pictures, uses the keyboard, and lets
// axe-core check it. An axe-core that is not installed is reported as a skipped subtest. A short test looks at a light desktop and a dark
// phone.
func inspect(t *testing.T, ctx context.Context, b *browser.Browser, name string) {
	for _, screen := range []struct {
		name          string
		width, height int
	}{{"desktop", 1280, 900}, {"phone", 390, 844}} {
		for _, dark := range []bool{false, true} {
			if testing.Short() && dark != (screen.name == "phone") {
				continue
			}
			scheme := map[bool]string{false: "light", true: "dark"}[dark]
			t.Run(screen.name+" "+scheme, func(t *testing.T) {
				must(t, b.Look(ctx, screen.width, screen.height, dark))
				var page struct {
					Sideways bool
					Height   int
				}
				must(t, b.Eval(ctx, "({Sideways: document.documentElement.scrollWidth > innerWidth, Height: document.documentElement.scrollHeight})", &page))
				if page.Sideways {
					t.Error("the page has to be moved sideways")
				}
				must(t, b.Look(ctx, screen.width, page.Height, dark))
				keep(t, ctx, b, fmt.Sprintf("state-%s-%s-%s.png", name, screen.name, scheme))
				must(t, b.Look(ctx, screen.width, screen.height, dark))
				useKeyboard(t, ctx, b)
				t.Run("axe-core", func(t *testing.T) {
					broken, kept, err := b.Axe(ctx)
					if errors.Is(err, browser.ErrNoAxe) {
						t.Skipf("not run: %v", err)
					}
					must(t, err)
					if kept < 15 {
						t.Errorf("only %d rules of axe-core apply to the page", kept)
					}
					for _, v := range broken {
						t.Error(v)
					}
				})
			})
		}
	}
}

// controls collects all elements that the keyboard has to reach, in their order.
const controls = `window.controls = [...document.querySelectorAll('a[href],button,input,select,textarea,summary,[tabindex="0"]')].filter((e) => e.checkVisibility())`

// useKeyboard reaches every control with Tab in the order of the page, sees where the focus is, and opens an index.
func useKeyboard(t *testing.T, ctx context.Context, b *browser.Browser) {
	t.Helper()
	var all []string
	must(t, b.Eval(ctx, "(document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex'), scrollTo(0, 0), "+controls+", window.controls.map((e) => e.tagName + ' ' + (e.id || e.textContent.slice(0, 30))))", &all))
	if len(all) < 6 {
		t.Fatalf("only %d controls: %q", len(all), all)
	}
	for i, name := range all {
		must(t, b.Press(ctx, "Tab"))
		var at struct {
			Index   int
			Name    string
			Outline float64
			Style   string
			Seen    bool
		}
		must(t, b.Eval(ctx, `((e, r, s) => ({Index: window.controls.indexOf(e), Name: e.tagName + ' ' + e.id, Outline: parseFloat(s.outlineWidth), Style: s.outlineStyle,
			Seen: r.bottom > 0 && r.top < innerHeight && r.width > 0}))(document.activeElement, document.activeElement.getBoundingClientRect(), getComputedStyle(document.activeElement))`, &at))
		if at.Index != i {
			t.Fatalf("after %d times Tab the focus is on %s, want %s", i+1, at.Name, name)
		}
		if at.Outline < 2 || at.Style == "none" || !at.Seen {
			t.Errorf("the focus on %s cannot be seen: %+v", name, at)
		}
	}
	const open = "document.querySelector('#indices details').open"
	for _, want := range []bool{true, false} {
		must(t, b.Eval(ctx, "document.querySelector('#indices summary').focus(), true", new(bool)))
		must(t, b.Press(ctx, "Enter"))
		var is bool
		if must(t, b.Eval(ctx, open, &is)); is != want {
			t.Errorf("an index is open after Enter: %v, want %v", is, want)
		}
	}
	must(t, b.Eval(ctx, "document.activeElement.blur(), true", new(bool)))
}
