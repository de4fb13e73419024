/** Passkeys and security keys: a form with `data-webauthn` asks the browser for a credential before it is sent. */

function optionsOf(page) {
  return JSON.parse(page.getElementById("webauthn-options").textContent);
}

async function optionsFrom(address) {
  const reply = await fetch(address, { headers: { Accept: "application/json" } });
  if (!reply.ok) throw new Error(`${reply.status}`);
  return reply.json();
}

async function created() {
  const { creation_options: options } = optionsOf(document);
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey);
  const selection = (publicKey.authenticatorSelection ??= {});
  const passwordless = document.querySelector("input[name=passwordless]");
  if (passwordless) {
    const wanted = passwordless.checked;
    selection.residentKey = wanted ? "required" : "discouraged";
    selection.requireResidentKey = wanted;
    selection.userVerification = wanted ? "required" : "preferred";
  }
  return navigator.credentials.create({ publicKey });
}

async function asserted({ request_options: options }) {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey);
  return navigator.credentials.get({ publicKey });
}

const WAYS = {
  create: created,
  get: () => asserted(optionsOf(document)),
  login: async (form) => asserted(await optionsFrom(form.action)),
};

async function submit(form) {
  const failed = form.querySelector("[data-webauthn-error]");
  failed.hidden = true;
  try {
    const credential = await WAYS[form.dataset.webauthn](form);
    form.elements.credential.value = JSON.stringify(credential.toJSON());
  } catch {
    failed.hidden = false;
    return;
  }
  form.submit();
}

for (const form of document.querySelectorAll("form[data-webauthn]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON) submit(form);
    else form.querySelector("[data-webauthn-missing]").hidden = false;
  });
}
