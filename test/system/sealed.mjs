// SPDX-License-Identifier: Apache-2.0
// A sealed request by node's `jose` package. Standard input: {jose, url, kid, key, alg, enc, to, master, claims};
// standard output: {header, body}, the sealed answer opened.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";

const input = JSON.parse(readFileSync(0, "utf8"));
const jose = await import(pathToFileURL(createRequire(input.jose + "/x.js").resolve("jose")));
const secret = new Uint8Array(randomBytes(input.enc === "A256GCM" ? 32 : 64));
const claims = { ...input.claims, response_key: { kty: "oct", k: jose.base64url.encode(secret) } };
const signed = await new jose.CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader({ alg: input.alg, kid: input.kid })
    .sign(await jose.importJWK(input.key, input.alg));
const sealed = await new jose.CompactEncrypt(new TextEncoder().encode(signed))
    .setProtectedHeader({ alg: "RSA-OAEP-256", enc: input.enc, kid: input.to })
    .encrypt(await jose.importJWK(input.master, "RSA-OAEP-256"));

// The certificate isn't looked at: the envelope is what is trusted.
const options = { method: "POST", rejectUnauthorized: false, headers: { "Content-Type": "application/jose" } };
const text = await new Promise((resolve, reject) => {
    const r = request(input.url + "/v1/sealed", options, (answer) => {
        let all = "";
        answer.on("data", (d) => (all += d)).on("end", () => resolve(all));
    });
    r.on("error", reject).end(sealed);
});
const { plaintext, protectedHeader } = await jose.compactDecrypt(text, secret, { keyManagementAlgorithms: ["dir"] });
console.log(JSON.stringify({ header: protectedHeader, body: new TextDecoder().decode(plaintext) }));
