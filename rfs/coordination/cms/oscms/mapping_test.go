package oscms

import "testing"

func TestAnIndexInWhichItemsAreNotFoundIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, mapping string
		refused       bool
	}{
		{"ours", itemsMapping, false},
		{"of the other tool", `{"properties":{"expiration":{"type":"long"},"completedAt":{"type":"long"},"leaseHolderId":{"type":"keyword","norms":false},"status":{"type":"keyword"}}}`, false},
		{"nothing mapped yet", `{}`, false},
		{"under a type", `{"_doc":{"properties":{"expiration":{"type":"long"},"completedAt":{"type":"long"}}}}`, false},
		{"nothing is ever mapped", `{"dynamic":"false"}`, true},
		{"nothing is ever mapped, under a type", `{"_doc":{"dynamic":"false"}}`, true},
		{"strict", `{"dynamic":"strict","properties":{"expiration":{"type":"long"}}}`, true},
		{"text", `{"properties":{"expiration":{"type":"text"},"completedAt":{"type":"long"}}}`, true},
		{"not indexed", `{"properties":{"expiration":{"type":"long","index":false},"completedAt":{"type":"long"}}}`, true},
		{"no object", `[]`, true},
	} {
		m, err := decodeMapping([]byte(c.mapping))
		if err == nil {
			err = m.check()
		}
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
