import { bytesReply } from '#api/http/reply.ts';
import type { RawReply } from '#api/route.ts';
import { VERSION } from '#infra/config/config.ts';
import { type Html, html } from './html.ts';
import { type Language, SHARED, type Text } from './words.ts';

/** Everything that a page shows around its content. */
export interface Frame {
  language: Language;
  title: string;
  /** Path and query of this page. */
  target: string;
  /** Screens of the navigation; empty before the sign-in. */
  screens: readonly { path: string; title: Text }[];
  /** Path of the screen to which the page belongs. */
  here: string | null;
  /** The signed-in operator and the proof for the form that signs out; null before the sign-in. */
  operator: { name: string; proof: Html } | null;
  /** True if the page fetches itself again every few seconds. */
  refreshes: boolean;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
}

/** Returns a whole page. */
export function framed(frame: Frame, content: Html): Html {
  const { language, title, screens, operator } = frame;
  const w = SHARED[language];
  return html`<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · examhall</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/ops/assets/console.css">
<script type="module" src="/ops/assets/console.js"></script>
</head>
<body>
<a class="skip" href="#main">${w.skip}</a>
<header>
<a class="brand" href="/ops">examhall</a>
${screens.length > 0 && html`<nav aria-label="${w.screens}"><ul>${screens.map((screen) => link(screen, frame))}</ul></nav>`}
<div class="session">
${frame.refreshes && html`<button type="button" class="quiet" data-pause="${w.pause}" data-resume="${w.resume}" hidden="">${w.pause}</button>`}
<a href="${otherLanguage(frame)}" lang="${language === 'vi' ? 'en' : 'vi'}" hreflang="${language === 'vi' ? 'en' : 'vi'}">${w.otherLanguage}</a>
${
  operator !== null &&
  html`<span class="operator"><span class="unseen">${w.signedInAs}</span> ${operator.name}</span>
<form method="post" action="/ops/sign-out">${operator.proof}<button class="quiet">${w.signOut}</button></form>`
}
</div>
</header>
<main id="main" tabindex="-1" data-refresh="${frame.refreshes ? '5' : ''}">
${content}
<p class="read-at" data-stale="${w.stale}">${w.readAt} ${time(frame.now)} · ${w.version} ${VERSION}</p>
</main>
</body>
</html>
`;
}

function link({ path, title }: { path: string; title: Text }, { here, language }: Frame): Html {
  return html`<li><a href="${path}" aria-current="${path === here ? 'page' : 'false'}">${title[language]}</a></li>`;
}

function otherLanguage({ language, target }: Frame): string {
  return `/ops/language?${new URLSearchParams({ to: language === 'vi' ? 'en' : 'vi', next: target })}`;
}

/** Returns a time in UTC, which the script of the page turns into the time of the browser. */
export function time(at: Date | number): Html {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

/** The page runs the console's own script and style only, is shown in no frame and sends forms to this server only. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Headers of every page. Under `no-referrer` a browser would send forms with the origin `null`. */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cache-Control': 'no-store',
  Vary: 'Cookie, Accept-Language',
};

/** Returns the reply of a page. */
export function pageReply(
  status: number,
  page: Html,
  headers: Readonly<Record<string, string | string[]>> = {},
): RawReply {
  const body = Buffer.from(page.toString());
  return bytesReply(status, { ...PAGE_HEADERS, ...headers }, body);
}

/** Returns a redirect that the browser follows with GET. */
export function redirect(to: string, headers: Readonly<Record<string, string | string[]>> = {}): RawReply {
  return bytesReply(303, { Location: to, 'Cache-Control': 'no-store', ...headers }, Buffer.alloc(0));
}
