/** What is said of a store's failure, by what its client throws. */
import { expect, it } from "vitest";

import { storeError } from "../../src/lake/store/s3-errors.js";

const thrown = (facts: object): Error => Object.assign(new Error("signed with AKIASECRET"), facts);

it.each([
  [{ name: "NoSuchBucket", $metadata: { httpStatusCode: 404 } }, "there is no such bucket"],
  [{ name: "InvalidBucketName", $metadata: { httpStatusCode: 400 } }, "correct SVC_OBJECT_STORE_URI"],
  [{ name: "RequestTimeTooSkewed", $metadata: { httpStatusCode: 403 } }, "set this one, or the store's"],
  [{ name: "XAdminUserNotFound", $metadata: { httpStatusCode: 404 } }, "it answers XAdminUserNotFound (HTTP 404)"],
  [{ name: "Unknown", $metadata: { httpStatusCode: 403 } }, "it denies access: give the credentials the rights"],
  [{ name: "Unknown", $metadata: { httpStatusCode: 301 } }, "set AWS_REGION"],
  [{ name: "Unknown", $metadata: { httpStatusCode: 503 } }, "it answers HTTP 503"],
  [{ name: "ExpiredToken", $metadata: { httpStatusCode: 400 } }, "and AWS_SESSION_TOKEN, or what gives them"],
  [{ name: "CredentialsProviderError" }, "or check AWS_PROFILE, or the role"],
  [{ code: "ECONNREFUSED" }, "check SVC_S3_ENDPOINT, or AWS_REGION, and the network (ECONNREFUSED)"],
  [{ code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" }, "authority in NODE_EXTRA_CA_CERTS"],
  [{ code: "ERR_TLS_CERT_ALTNAME_INVALID" }, "or check SVC_S3_ENDPOINT (ERR_TLS_CERT_ALTNAME_INVALID)"],
  [{ code: "EPROTO" }, "or it has no TLS"],
  [{ name: "TimeoutError" }, "no answer comes: check SVC_S3_ENDPOINT"],
  [{ name: "AbortError" }, "and the store's own log (AbortError)"],
])("%o is told with what to do", (facts, sentence) => {
  const { code, message } = storeError("be used", thrown(facts));
  expect([code, message]).toEqual(["UNAVAILABLE", expect.stringContaining(sentence)]);
  expect(message).toMatch(/^the object store cannot be used: /u);
});

it.each([{ name: "RangeError" }, { name: "AKIA SECRET", $metadata: { httpStatusCode: 500 } }])(
  "%o adds nothing",
  (facts) => {
    expect(storeError("be used", thrown(facts)).message).toBe("the object store cannot be used");
  },
);
