//! Signed statements: who a client is, and that it has the key that a token is bound to.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::secret::{Secret, random_text};
use crate::limits::ASSERTION_LIFE;

/// How a statement is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// RSA with PKCS #1 and SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// By its name in a statement: `ES256`, `ES384`, `RS256`, `EdDSA`.
    pub fn from_name(name: &str) -> Option<SigningAlgorithm> {
        [SigningAlgorithm::Es256, SigningAlgorithm::Es384, SigningAlgorithm::Rs256, SigningAlgorithm::EdDsa]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            SigningAlgorithm::Es256 => "ES256",
            SigningAlgorithm::Es384 => "ES384",
            SigningAlgorithm::Rs256 => "RS256",
            SigningAlgorithm::EdDsa => "EdDSA",
        }
    }
}

/// A private key that says who this client is.
#[derive(Debug, Clone)]
pub struct SigningKey {
    pem: Secret,
    algorithm: SigningAlgorithm,
    id: Option<String>,
}

impl SigningKey {
    /// A key in PKCS #8, as PEM (`-----BEGIN PRIVATE KEY-----`).
    pub fn new(pem: Secret, algorithm: SigningAlgorithm) -> SigningKey {
        SigningKey { pem, algorithm, id: None }
    }

    /// The key's name, where the other side knows several.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> SigningKey {
        self.id = Some(id.into());
        self
    }

    /// Says that this client is who it says (RFC 7523).
    pub(crate) fn assertion(&self, client: &str, issuer: &str) -> Result<String, String> {
        let mut header = json!({"alg": self.algorithm.name(), "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        let now = unix_time();
        let claims = json!({
            "iss": client, "sub": client, "aud": issuer, "iat": now, "exp": now + ASSERTION_LIFE.as_secs(),
            "jti": random_text(16)?,
        });
        sign_jwt(&header, &claims, |text| self.sign(text))
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        let bad = || {
            "the private key can't be read; it has to be PKCS #8 of the algorithm that is named".to_owned()
        };
        let lines = self.pem.reveal().lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        let key = BASE64_STANDARD.decode(lines.collect::<String>()).map_err(|_| bad())?;
        let random = SystemRandom::new();
        match self.algorithm {
            SigningAlgorithm::Es256 | SigningAlgorithm::Es384 => {
                let kind = match self.algorithm {
                    SigningAlgorithm::Es256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
                    _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
                };
                let key = EcdsaKeyPair::from_pkcs8(kind, &key, &random).map_err(|_| bad())?;
                key.sign(&random, text).map(|signature| signature.as_ref().to_vec()).map_err(|_| bad())
            }
            SigningAlgorithm::Rs256 => {
                let key = RsaKeyPair::from_pkcs8(&key).map_err(|_| bad())?;
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(|_| bad())?;
                Ok(signature)
            }
            SigningAlgorithm::EdDsa => {
                let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key).map_err(|_| bad())?;
                Ok(key.sign(text).as_ref().to_vec())
            }
        }
    }
}

/// A key that tokens are bound to (RFC 9449): who has only the token has nothing.
#[derive(Debug, Clone)]
pub(crate) struct ProofKey(Secret);

impl ProofKey {
    pub(crate) fn generate() -> Result<ProofKey, String> {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let key = key.map_err(|_| "no key can be made".to_owned())?;
        Ok(ProofKey(Secret::new(BASE64_STANDARD.encode(key.as_ref()))))
    }

    pub(crate) fn from_secret(kept: Secret) -> ProofKey {
        ProofKey(kept)
    }

    pub(crate) fn kept(&self) -> Secret {
        self.0.clone()
    }

    /// A proof for one request, with the token that goes with it.
    pub(crate) fn proof(
        &self,
        method: &str,
        url: &Url,
        nonce: Option<&str>,
        token: Option<&Secret>,
    ) -> Result<String, String> {
        let bad = || "the key of the token can't be read; sign in again".to_owned();
        let random = SystemRandom::new();
        let key = BASE64_STANDARD.decode(self.0.reveal()).map_err(|_| bad())?;
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random).map_err(|_| bad())?;
        // An uncompressed point: 4, x, y.
        let point = key.public_key().as_ref();
        let half =
            |range: std::ops::Range<usize>| point.get(range).map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
        let (Some(x), Some(y)) = (half(1..33), half(33..65)) else { return Err(bad()) };
        let header =
            json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}});
        let mut about = url.clone();
        about.set_query(None);
        about.set_fragment(None);
        let mut claims =
            json!({"jti": random_text(16)?, "htm": method, "htu": about.as_str(), "iat": unix_time()});
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        if let Some(token) = token {
            claims["ath"] = json!(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token.reveal().as_bytes())));
        }
        sign_jwt(&header, &claims, |text| {
            key.sign(&random, text).map(|signature| signature.as_ref().to_vec()).map_err(|_| bad())
        })
    }
}

fn sign_jwt(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<String, String> {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let signature = sign(text.as_bytes())?;
    Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

/// Seconds since 1970, as tokens count them.
pub(crate) fn unix_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn parts(token: &str) -> (Value, Value, Vec<u8>) {
        let parts: Vec<Vec<u8>> =
            token.split('.').map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
        let json = |part: &[u8]| serde_json::from_slice(part).unwrap();
        (json(&parts[0]), json(&parts[1]), parts[2].clone())
    }

    #[test]
    fn a_proof_is_signed_by_the_key_in_it_and_never_the_same_twice() {
        let key = ProofKey::generate().unwrap();
        let url = Url::parse("https://x.example/mcp?secret=1#f").unwrap();
        let token = Secret::new("t0ken");
        let proof = key.proof("POST", &url, Some("n"), Some(&token)).unwrap();
        let (header, claims, signature) = parts(&proof);
        assert_eq!((&header["typ"], &claims["htu"]), (&json!("dpop+jwt"), &json!("https://x.example/mcp")));
        assert_eq!((&claims["htm"], &claims["nonce"]), (&json!("POST"), &json!("n")));
        let half = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(header["jwk"][name].as_str().unwrap()).unwrap();
        let point = [vec![4], half("x"), half("y")].concat();
        let text = proof.rsplit_once('.').unwrap().0;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text.as_bytes(), &signature).unwrap();
        assert_ne!(proof, key.proof("POST", &url, Some("n"), Some(&token)).unwrap());
        let again = ProofKey::from_secret(key.kept()).proof("GET", &url, None, None).unwrap();
        assert_eq!(parts(&again).0["jwk"], header["jwk"]);
        assert!(!format!("{key:?}").contains(key.kept().reveal()));
    }

    #[test]
    fn an_assertion_names_the_client_and_a_bad_key_is_not_shown() {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(pkcs8.as_ref())
        );
        let key = SigningKey::new(Secret::new(pem), SigningAlgorithm::Es256).with_id("k1");
        let (header, claims, _) = parts(&key.assertion("me", "https://as.example").unwrap());
        assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k1")));
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("me"), &json!("me"), &json!("https://as.example"))
        );
        let bad =
            SigningKey::new(Secret::new("n0 key"), SigningAlgorithm::Rs256).assertion("me", "x").unwrap_err();
        assert!(bad.contains("PKCS #8") && !bad.contains("n0 key"), "{bad}");
        assert_eq!(SigningAlgorithm::from_name("ES384"), Some(SigningAlgorithm::Es384));
        assert_eq!(SigningAlgorithm::from_name("none"), None);
    }
}
