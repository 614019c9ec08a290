package signer

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// Roles is the token service: it answers AssumeRole for known roles to callers accepted by its verifier, and adds the temporary credentials
// to the verifiers of Grant.
type Roles struct {
	Verifier *Verifier // of the service "sts"
	ARNs     []string  // the roles that may be assumed
	Grant    []*Verifier
	Lifetime time.Duration // lifetime of credentials; 0: an hour

	given atomic.Int64
}

// Given returns the number of credentials issued so far.
func (s *Roles) Given() int64 { return s.given.Load() }

// Handler returns the handler of the requests.
func (s *Roles) Handler() http.Handler { return s.Verifier.Handler(http.HandlerFunc(s.assume)) }

func (s *Roles) assume(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "AssumeRole" {
		http.Error(w, "only AssumeRole is served", http.StatusBadRequest)
		return
	}
	arn := r.Form.Get("RoleArn")
	if !slices.Contains(s.ARNs, arn) || r.Form.Get("RoleSessionName") == "" {
		s.Verifier.refuse(w, &Refusal{"AccessDenied", "User is not authorized to perform: sts:AssumeRole on resource: " + arn})
		return
	}
	id := "ASIA" + rand.Text()[:16]
	key := Key{Secret: rand.Text(), Token: rand.Text() + rand.Text()}
	for _, v := range s.Grant {
		v.Add(id, key)
	}
	s.given.Add(1)
	life := s.Lifetime
	if life == 0 {
		life = time.Hour
	}
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>`+
		`<AssumedRoleUser><Arn>%s/session</Arn><AssumedRoleId>AROA:session</AssumedRoleId></AssumedRoleUser>`+
		`<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>`+
		`<Expiration>%s</Expiration></Credentials></AssumeRoleResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleResponse>`,
		arn, id, key.Secret, key.Token, time.Now().Add(life).UTC().Format(time.RFC3339))
}
