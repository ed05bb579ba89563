"use strict";

// The documentation page: load the library, and fetch tokens of personas in the embedded stack.

const personas = document.getElementById("personas");
const configuration = {
  // Texts, requests and fonts stay on this server. No service of the library's maker is used.
  telemetry: false,
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  persistAuth: false,
  servers: [{ url: location.origin }],
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hideModels: true,
};
// The empty page is painted before the library, which is large, takes the thread.
const painted = new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const content = fetch("/openapi.json").then((response) => {
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
});
let reference;

function loadLibrary() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/docs/assets/standalone.js";
    script.onload = resolve;
    script.onerror = () => reject(new Error("network"));
    document.head.append(script);
  });
}

// Screen readers need names, roles and states that the library leaves out.
function completeControls() {
  for (const button of document.querySelectorAll("button[role=none]")) button.removeAttribute("role");
  for (const button of document.querySelectorAll("button:not([aria-label], [aria-labelledby], [title])")) {
    // The text of a copy button is hidden from screen readers too.
    if (button.className.includes("copy-button")) button.setAttribute("aria-label", "Copy");
    else if (!button.textContent.trim()) button.setAttribute("aria-label", "More");
  }
  for (const link of document.querySelectorAll("a[target=_blank]:not([aria-label])")) {
    link.setAttribute("aria-label", link.textContent.trim() || link.hostname);
  }
  for (const field of document.querySelectorAll("[role=combobox]:not([aria-expanded])")) {
    field.setAttribute("aria-expanded", String(field.hasAttribute("aria-controls")));
  }
  for (const field of document.querySelectorAll("[role=textbox]:not([aria-label], [aria-labelledby])")) {
    field.setAttribute("aria-label", "Content");
  }
  for (const control of document.querySelectorAll("button[aria-controls]")) {
    if (!document.getElementById(control.getAttribute("aria-controls"))) control.removeAttribute("aria-controls");
  }
  for (const list of document.querySelectorAll("ul.endpoints:not([tabindex])")) list.tabIndex = 0;
}

function completeAllControls() {
  let isPlanned = false;
  new MutationObserver(() => {
    if (isPlanned) return;
    isPlanned = true;
    requestAnimationFrame(() => {
      isPlanned = false;
      completeControls();
    });
  }).observe(document.body, { childList: true, subtree: true });
}

async function open() {
  await painted;
  [configuration.content] = await Promise.all([content, loadLibrary()]);
  completeAllControls();
  reference = Scalar.createApiReference("#documentation", configuration);
  document.getElementById("opening").remove();
}

async function useToken(persona) {
  const response = await fetch(`${personas.dataset.issuer}/sandbox/token`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ persona }),
  });
  const { access_token: token } = await response.json();
  configuration.authentication = {
    preferredSecurityScheme: "bearer",
    securitySchemes: { bearer: { token } },
  };
  reference?.updateConfiguration({ ...configuration });
}

personas?.addEventListener("click", async (event) => {
  const persona = event.target.closest("button")?.value;
  if (!persona) return;
  const outcome = document.getElementById("outcome");
  outcome.textContent = "Fetching a token…";
  try {
    await useToken(persona);
    document.getElementById("persona").textContent = `as ${persona}`;
    outcome.textContent = `Requests now use the token of ${persona}.`;
  } catch {
    outcome.textContent = `No token. Run: marketplace token ${persona}. Then paste the token under Authentication.`;
  }
});

open().catch((error) => {
  document.getElementById("progress").textContent = `The documentation could not be loaded (${error.message}).`;
});
