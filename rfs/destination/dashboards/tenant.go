package dashboards

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// global is the name by which requests name the global tenant, and globalKey the security plugin's name.
const global, globalKey = "global", "global_tenant"

// account is the part of the security plugin's description of a user that names its tenants.
type account struct {
	User string `json:"user_name"`
	// Requested is the tenant that requests of the connection use; "": the global one.
	Requested string          `json:"user_requested_tenant"`
	Tenants   map[string]bool `json:"tenants"` // by name, whether the user may write
}

// open connects to the tenant of a file. Without a tenant that the user may write, it sets Skipped to the reason. It compares the tenant
// that OpenSearch Dashboards uses with the wanted one, because it replaces a tenant that the user does not have by another one, without an
// error; for a request that names none it uses the user's private tenant by default.
func (x *importing) open(ctx context.Context, from string) (err error) {
	if x.api, err = x.Connect(ctx, global); err != nil {
		return err
	}
	a, err := x.account(ctx)
	without := "" // the reason why OpenSearch Dashboards has no tenants
	switch {
	case fault.HasStatus(err, http.StatusNotFound):
		without = "its security plugin is not installed"
	case err != nil:
		return err
	case a.Requested == global: // it forwards the header, which names no tenant for OpenSearch
		without = "its multitenancy is disabled"
	}
	switch {
	case without != "" && from != "":
		x.Skipped = fmt.Sprintf("OpenSearch Dashboards has no tenant %s: %s", from, without)
		return nil
	case without != "":
		x.api, err = x.Connect(ctx, "")
		return err
	}
	x.Tenant = global
	if from != "" {
		if x.Tenant, x.Skipped = a.named(from); x.Skipped != "" {
			return nil
		}
		if x.api, err = x.Connect(ctx, x.Tenant); err != nil {
			return err
		}
		if a, err = x.account(ctx); err != nil {
			return err
		}
	}
	key := x.Tenant
	if key == global {
		key = globalKey
	}
	if used := cmp.Or(a.Requested, global); used != x.Tenant {
		x.Skipped = fmt.Sprintf("OpenSearch Dashboards uses the tenant %s in place of %s for the user %s", used, x.Tenant, a.User)
	} else if writes, has := a.Tenants[key]; has && !writes {
		x.Skipped = fmt.Sprintf("the user %s may not write to the tenant %s", a.User, x.Tenant)
	}
	return nil
}

// account returns the description of the user.
func (x *importing) account(ctx context.Context) (a account, err error) {
	const path = "/api/v1/auth/authinfo"
	err = x.call(ctx, http.MethodGet+" "+path, &a, func(ctx context.Context) (int, []byte, error) {
		return x.api.Do(ctx, http.MethodGet, path, nil, nil)
	})
	return a, err
}

// named returns the tenant of that name, else the only one with the same letters and digits; or
// the reason why none is.
func (a account) named(name string) (tenant, reason string) {
	if _, has := a.Tenants[name]; has {
		return name, ""
	}
	var alike []string
	for _, t := range slices.Sorted(maps.Keys(a.Tenants)) {
		if plain(t) == plain(name) {
			alike = append(alike, t)
		}
	}
	switch len(alike) {
	case 0:
		return "", fmt.Sprintf("the user %s has no tenant %s: create it and permit the user to write to it, or import the file into another tenant", a.User, name)
	case 1:
		return alike[0], ""
	}
	return "", fmt.Sprintf("several tenants may be %s (%s): import the file into one of them", name, strings.Join(alike, ", "))
}
