package s3cms_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

// memory is a Bucket in memory with atomic conditions. Pages are short, so that listings have several.
type memory struct {
	now     func() time.Time
	page    int
	ignores bool // conditions, as a server that does not know them

	mu       sync.Mutex
	objects  map[string]string
	versions map[string]int
	count    map[string]int // of requests
	last     int
	before   func(method, name string) error // nil: none
}

func newMemory() *memory {
	return &memory{now: time.Now, page: 50, objects: map[string]string{}, versions: map[string]int{}, count: map[string]int{}}
}

func (m *memory) request(method, name string) error {
	m.count[method]++
	if m.before != nil {
		return m.before(method, name)
	}
	return nil
}

func (m *memory) Get(_ context.Context, name string) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("get", name); err != nil {
		return nil, "", err
	}
	body, ok := m.objects[name]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	return []byte(body), fmt.Sprint(m.versions[name]), nil
}

func (m *memory) Put(_ context.Context, name string, body []byte, version string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("put", name); err != nil {
		return "", err
	}
	is := ""
	if _, ok := m.objects[name]; ok {
		is = fmt.Sprint(m.versions[name])
	}
	if is != version && !m.ignores {
		return "", fs.ErrExist
	}
	m.last++
	m.objects[name], m.versions[name] = string(body), m.last
	return fmt.Sprint(m.last), nil
}

func (m *memory) List(_ context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("list", prefix); err != nil {
		return nil, nil, false, err
	}
	for name := range m.objects {
		if strings.HasPrefix(name, prefix) && name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names, more = names[:min(m.page, len(names))], len(names) > m.page
	for _, name := range names {
		versions = append(versions, fmt.Sprint(m.versions[name]))
	}
	return names, versions, more, nil
}

func (m *memory) Date(_ context.Context, name string) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("date", name); err != nil {
		return time.Time{}, err
	}
	return m.now().Truncate(time.Second), nil
}
