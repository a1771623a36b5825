//! Tokens without a page: renewed when they end, and those that need no user.

use http::HeaderMap;
use url::Url;

use super::super::allowed_addresses::is_confidential;
use super::super::client::OAuthClient;
use super::super::discovery::{self, TokenIssuer};
use super::super::grants::{FORM, NoTokens, TokenEndpoint, TokenSet, form_body, token_refusal};
use super::super::jwt::ProofKey;
use super::super::net::SignInClient;
use super::super::secret::Secret;
use super::super::settings::{OrganisationGrant, TokenGrant};
use super::{ServerAccount, SignInRecord};

impl ServerAccount {
    /// Gets a newer token than this one; whether there is one.
    ///
    /// # Errors
    /// Nobody knows, in words; what was kept is as it was.
    pub(super) async fn renew_tokens(&self, than: &Secret) -> Result<bool, String> {
        if self.settings.grant.is_alone() {
            return self.obtain_tokens(Some(than)).await.map(|()| true);
        }
        let _asking = self.asking.lock().await;
        let _held = self.store.lock(&self.key).await?;
        // Somebody else may have been faster, in this process or another one.
        let found = self.load();
        {
            let mut state = self.state();
            // A store that can't be written has only what it once had.
            if found.is_some() || state.record.is_none() {
                (state.record, state.loaded) = (found, true);
            }
        }
        let Some(record) = self.record() else { return Ok(false) };
        let Some(tokens) = &record.tokens else { return Ok(false) };
        if tokens.access != *than {
            return Ok(true);
        }
        let Some(refresh) = &tokens.refresh else { return Ok(false) };
        let net = SignInClient::new(&self.url, self.proxy.as_deref()).await?;
        let url = net.places.check(&record.token_endpoint, "the address of tokens")?;
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.reveal())];
        form.extend(record.resource.as_deref().map(|resource| ("resource", resource)));
        let proof = record.proof_key.clone().map(ProofKey::from_secret);
        let counter = TokenEndpoint {
            net: &net,
            url: &url,
            issuer: &record.issuer,
            client: &record.client,
            settings: &self.settings,
            proof: proof.as_ref(),
        };
        let mut next = SignInRecord::clone(&record);
        let renewed = match counter.ask(&form, &[refresh, &tokens.access]).await {
            Ok(mut newer) => {
                newer.refresh = newer.refresh.or_else(|| Some(refresh.clone()));
                newer.scopes = newer.scopes.or_else(|| tokens.scopes.clone());
                next.tokens = Some(newer);
                true
            }
            Err(NoTokens::Refused { error, words }) if is_final(&error) => {
                self.log_complaint(&format!("the sign-in has ended: {words}"));
                next.tokens = None;
                if matches!(&*error, "invalid_client" | "unauthorized_client") {
                    // Our name isn't known there any more.
                    next.client.redirect = None;
                }
                false
            }
            Err(other) => return Err(other.words()),
        };
        if let Err(words) = self.keep(next) {
            self.log_complaint(&format!("the renewed sign-in can't be kept: {words}"));
        }
        Ok(renewed)
    }

    /// Gets a token without a user, newer than this one.
    ///
    /// # Errors
    /// There is none, in words.
    pub(super) async fn obtain_tokens(&self, than: Option<&Secret>) -> Result<(), String> {
        let _asking = self.asking.lock().await;
        let record = self.record();
        let has = record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.access);
        let challenge = self.state().challenge.clone();
        if has.is_some() && has != than {
            return Ok(());
        }
        let net = SignInClient::new(&self.url, self.proxy.as_deref()).await?;
        let issuer = discovery::discover_issuer(&net, &self.url, &challenge, &self.settings).await?;
        let client = OAuthClient::of_settings(&self.settings, &issuer);
        let client = client.ok_or("`oauth.clientId` is missing; without a user nobody can be registered")?;
        let before = record.as_ref().filter(|record| record.issuer == issuer.name);
        let before = before.map(|record| record.asked.clone()).unwrap_or_default();
        let scopes = discovery::scopes_to_ask(&issuer, &challenge, &self.settings, &before);
        let (scope, resource) = (scopes.join(" "), issuer.resource.clone().unwrap_or_default());
        let assertion = match &self.settings.grant {
            TokenGrant::Assertion(assertion) => Some(assertion.read()?),
            TokenGrant::Organisation(organisation) => {
                Some(self.exchange(organisation, &issuer, &resource).await?)
            }
            TokenGrant::Client(_) | TokenGrant::User => None,
        };
        let mut form = match &assertion {
            Some(assertion) => {
                vec![
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", assertion.reveal()),
                ]
            }
            None => vec![("grant_type", "client_credentials")],
        };
        form.extend(
            [("scope", &*scope), ("resource", &*resource)].into_iter().filter(|(_, value)| !value.is_empty()),
        );
        let proof = if issuer.wants_proof { Some(ProofKey::generate()?) } else { None };
        let counter = self.token_endpoint(&net, &issuer, &client, proof.as_ref());
        let secrets: Vec<&Secret> = assertion.iter().chain(&self.settings.client_secret).collect();
        let tokens = counter.ask(&form, &secrets).await.map_err(NoTokens::words)?;
        self.keep(self.made(&issuer, client, scopes, tokens, proof.as_ref()))
    }

    /// Exchanges what an organisation said of the user for a statement to this issuer.
    pub(super) async fn exchange(
        &self,
        with: &OrganisationGrant,
        issuer: &TokenIssuer,
        resource: &str,
    ) -> Result<Secret, String> {
        let url = Url::parse(&with.token_endpoint).ok().filter(is_confidential);
        let url = url.ok_or("the organisation's address of tokens has to be https")?;
        // Its address is the user's own, so it is judged by itself and not by where the server is.
        let net = SignInClient::new(&url, self.proxy.as_deref()).await?;
        let said = with.id_token.read()?;
        let wanted = "urn:ietf:params:oauth:token-type:id-jag";
        let body = form_body(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", wanted),
            ("audience", &issuer.name),
            ("resource", resource),
            ("subject_token", said.reveal()),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("client_id", &with.client_id),
        ]);
        let answer = net.post(&url, FORM, HeaderMap::new(), body).await?;
        let given = answer.body["access_token"].as_str().filter(|given| !given.is_empty());
        match given.filter(|_| answer.status.is_success() && answer.body["issued_token_type"] == wanted) {
            Some(given) => Ok(Secret::new(given)),
            None => Err(said.hidden_in(&token_refusal(&url, &answer).words())),
        }
    }

    pub(super) fn token_endpoint<'a>(
        &'a self,
        net: &'a SignInClient,
        issuer: &'a TokenIssuer,
        client: &'a OAuthClient,
        proof: Option<&'a ProofKey>,
    ) -> TokenEndpoint<'a> {
        TokenEndpoint {
            net,
            url: &issuer.token,
            issuer: &issuer.name,
            client,
            settings: &self.settings,
            proof,
        }
    }

    pub(super) fn made(
        &self,
        issuer: &TokenIssuer,
        client: OAuthClient,
        asked: Vec<String>,
        tokens: TokenSet,
        proof: Option<&ProofKey>,
    ) -> SignInRecord {
        SignInRecord {
            server: discovery::resource_identifier(&self.url),
            issuer: issuer.name.clone(),
            resource: issuer.resource.clone(),
            token_endpoint: issuer.token.to_string(),
            revocation_endpoint: issuer.revocation.as_ref().map(Url::to_string),
            client,
            asked,
            tokens: Some(tokens),
            proof_key: proof.map(ProofKey::kept),
        }
    }
}

/// Whether a refusal of a renewal means that the sign-in is over.
fn is_final(error: &str) -> bool {
    matches!(
        error,
        "invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_target" | "invalid_scope"
    )
}
