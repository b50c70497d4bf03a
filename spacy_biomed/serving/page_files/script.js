"use strict";

const form = document.getElementById("form");
const text = document.getElementById("text");
const token = document.getElementById("token");
const button = document.getElementById("annotate");
const result = document.getElementById("result");
const statusLine = document.getElementById("status");

function say(line, isProblem) {
  statusLine.textContent = line;
  statusLine.classList.toggle("problem", isProblem);
}

async function readProblem(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

async function annotate() {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token.value}`;
  button.disabled = true;
  result.replaceChildren();
  say("Annotating …", false);
  try {
    const body = JSON.stringify({ text: text.value });
    const response = await fetch("page/annotate", { method: "POST", headers, body });
    if (!response.ok) {
      say(await readProblem(response), true);
      return;
    }
    // The server has escaped every text, and the policy of the page runs no script in it.
    result.innerHTML = await response.text();
    const count = result.querySelectorAll("#entities tbody tr").length;
    say(count === 1 ? "1 entity" : `${count} entities`, false);
  } catch {
    say("the server cannot be reached", true);
  } finally {
    button.disabled = false;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  annotate();
});

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit(button);
  }
});

document.getElementById("clear").addEventListener("click", () => {
  text.value = "";
  result.replaceChildren();
  say("", false);
  text.focus();
});
