// Package signer verifies AWS Signature Version 4 in tests, by the published specification and without an SDK, and answers incorrectly
// signed requests with 403. It also simulates the token service that issues temporary credentials for a role.
package signer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Key is the secret of an access key id.
type Key struct {
	Secret string
	Token  string // session token of temporary credentials; "": permanent ones
	over   bool
}

// Refusal is the reason why a request is rejected: the code and the message of the services.
type Refusal struct{ Code, Message string }

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// Verifier checks requests to one service in one region.
type Verifier struct {
	Region  string
	Service string           // "es", "aoss", "s3", "sts", "ec2", "autoscaling"
	Now     func() time.Time // nil: the clock of the machine
	// Require lists headers, in lower case, that every request must have and sign.
	Require []string

	mu   sync.Mutex
	keys map[string]Key
}

// Add adds an access key id.
func (v *Verifier) Add(id string, k Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys == nil {
		v.keys = map[string]Key{}
	}
	v.keys[id] = k
}

// Remove removes an access key id.
func (v *Verifier) Remove(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.keys, id)
}

// Expire makes all temporary credentials expire.
func (v *Verifier) Expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, k := range v.keys {
		k.over = k.Token != ""
		v.keys[id] = k
	}
}

// maxSkew is the maximum difference between the date of a request and the clock.
const maxSkew = 5 * time.Minute

const (
	algorithm   = "AWS4-HMAC-SHA256"
	dateLayout  = "20060102T150405Z"
	notSigned   = "UNSIGNED-PAYLOAD"
	mismatch    = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method."
	badToken    = "The security token included in the request is invalid."
	bodyLimit   = 1 << 30
	hashHeader  = "X-Amz-Content-Sha256"
	tokenHeader = "X-Amz-Security-Token"
)

// Verify verifies one request and leaves its body readable. The error is a *Refusal, or an error of reading the body.
func (v *Verifier) Verify(r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	a, err := parseAuthorization(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	v.mu.Lock()
	key, known := v.keys[a.id]
	v.mu.Unlock()
	if !known || key.Token != r.Header.Get(tokenHeader) {
		return &Refusal{"UnrecognizedClientException", badToken}
	}
	if key.over {
		return &Refusal{"ExpiredToken", "The security token included in the request is expired"}
	}
	if a.region != v.Region {
		return &Refusal{"InvalidSignatureException", "Credential should be scoped to a valid region."}
	}
	if a.service != v.Service {
		return &Refusal{"InvalidSignatureException", fmt.Sprintf("Credential should be scoped to correct service: '%s'.", v.Service)}
	}
	if err := v.checkDate(a, r.Header.Get("X-Amz-Date")); err != nil {
		return err
	}
	if err := v.checkSigned(a, r); err != nil {
		return err
	}
	payload, err := v.payload(r, body)
	if err != nil {
		return err
	}
	request := canonicalRequest(r, a.headers, payload, v.Service == "s3")
	sum := sha256.Sum256([]byte(request))
	text := strings.Join([]string{algorithm, r.Header.Get("X-Amz-Date"), a.scope(), hex.EncodeToString(sum[:])}, "\n")
	if !hmac.Equal(mac(signingKey(key.Secret, a), text), a.signature) {
		return &Refusal{"SignatureDoesNotMatch", mismatch}
	}
	return nil
}

func (v *Verifier) checkDate(a authorization, stamp string) error {
	at, err := time.Parse(dateLayout, stamp)
	if err != nil {
		return &Refusal{"IncompleteSignature", "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."}
	}
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	if d := now().Sub(at); d > maxSkew || d < -maxSkew {
		return &Refusal{"InvalidSignatureException", fmt.Sprintf("Signature expired: %s is not within 5 min. of %s", stamp, now().UTC().Format(dateLayout))}
	}
	if a.day != stamp[:8] {
		return &Refusal{"InvalidSignatureException", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '" + a.day + "' != '" + stamp[:8] + "'."}
	}
	return nil
}

// checkSigned returns a Refusal if a header that must be signed is not.
func (v *Verifier) checkSigned(a authorization, r *http.Request) error {
	if !slices.IsSorted(a.headers) {
		return &Refusal{"SignatureDoesNotMatch", "SignedHeaders are not in order."}
	}
	need := append([]string{"host"}, v.Require...)
	for name := range r.Header {
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-amz-") || n == "content-type" && v.Service != "s3" {
			need = append(need, n)
		}
	}
	for _, n := range need {
		if n != "host" && r.Header.Get(n) == "" {
			return &Refusal{"AccessDenied", "The request lacks the header '" + n + "'."}
		}
		if !slices.Contains(a.headers, n) {
			return &Refusal{"SignatureDoesNotMatch", "'" + n + "' must be a 'SignedHeader' in the AWS Authorization."}
		}
	}
	if v.Service == "aoss" && slices.Contains(a.headers, "content-length") {
		return &Refusal{"SignatureDoesNotMatch", mismatch} // serverless collections do not see the client's Content-Length
	}
	return nil
}

// payload returns the hash of the body for the signature. Object stores accept unsigned bodies; serverless collections and object stores
// require the header.
func (v *Verifier) payload(r *http.Request, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	have := hex.EncodeToString(sum[:])
	stated := r.Header.Get(hashHeader)
	switch {
	case stated == have:
	case stated == notSigned && v.Service == "s3":
		return notSigned, nil
	case stated == "" && v.Service != "s3" && v.Service != "aoss":
	case stated == "":
		return "", &Refusal{"InvalidRequest", "Missing required header for this request: x-amz-content-sha256"}
	default:
		return "", &Refusal{"XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."}
	}
	return have, nil
}

// authorization is the parsed Authorization header.
type authorization struct {
	id, day, region, service string
	headers                  []string // names in lower case
	signature                []byte
}

func (a authorization) scope() string {
	return strings.Join([]string{a.day, a.region, a.service, "aws4_request"}, "/")
}

func parseAuthorization(h string) (authorization, error) {
	var a authorization
	if h == "" {
		return a, &Refusal{"MissingAuthenticationToken", "Missing Authentication Token"}
	}
	rest, ok := strings.CutPrefix(h, algorithm+" ")
	if !ok {
		return a, &Refusal{"IncompleteSignature", "Authorization header is not of " + algorithm + "."}
	}
	var err error
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			f := strings.Split(value, "/")
			if len(f) != 5 || f[4] != "aws4_request" {
				return a, &Refusal{"IncompleteSignature", "Credential must have exactly 5 slash-delimited elements."}
			}
			a.id, a.day, a.region, a.service = f[0], f[1], f[2], f[3]
		case "SignedHeaders":
			a.headers = strings.Split(value, ";")
		case "Signature":
			a.signature, err = hex.DecodeString(value)
		}
	}
	if a.id == "" || len(a.headers) == 0 || len(a.signature) != sha256.Size || err != nil {
		return a, &Refusal{"IncompleteSignature", "Authorization header lacks Credential, SignedHeaders or Signature."}
	}
	return a, nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// signingKey derives the signing key for a day, region and service.
func signingKey(secret string, a authorization) []byte {
	k := []byte("AWS4" + secret)
	for _, part := range []string{a.day, a.region, a.service, "aws4_request"} {
		k = mac(k, part)
	}
	return k
}

// Reason returns the Refusal in an error; nil if it has none.
func Reason(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}
