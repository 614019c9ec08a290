package signer

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Handler passes correctly signed requests to next, without their signature, and answers others with 403: in JSON, or in XML for object
// stores, the token service, EC2 and Auto Scaling.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := v.Verify(r); err != nil {
			v.refuse(w, err)
			return
		}
		out := r.Clone(r.Context())
		for _, name := range []string{"Authorization", "X-Amz-Date", hashHeader, tokenHeader} {
			out.Header.Del(name)
		}
		next.ServeHTTP(w, out)
	})
}

func (v *Verifier) refuse(w http.ResponseWriter, err error) {
	reason := Reason(err)
	if reason == nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if v.Service == "s3" || v.Service == "sts" || v.Service == "ec2" || v.Service == "autoscaling" {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		type fields struct {
			Code    string
			Message string
		}
		var answer any = struct {
			XMLName xml.Name `xml:"Error"`
			fields
		}{fields: fields(*reason)}
		switch v.Service {
		case "sts", "autoscaling":
			answer = struct {
				XMLName xml.Name `xml:"ErrorResponse"`
				Error   fields
			}{Error: fields(*reason)}
		case "ec2":
			answer = struct {
				XMLName xml.Name `xml:"Response"`
				Error   fields   `xml:"Errors>Error"`
				Request string   `xml:"RequestID"`
			}{Error: fields(*reason), Request: "r"}
		}
		_ = xml.NewEncoder(w).Encode(answer) // the client may be gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", reason.Code)
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": reason.Message})
}

// Forward returns a handler that passes requests on to a server, such as a real cluster.
func Forward(to *url.URL) http.Handler { return httputil.NewSingleHostReverseProxy(to) }
