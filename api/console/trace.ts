import { readAsked, type Trace } from '#infra/mongo/operations/trace.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import type { Reason, Standing } from '#shared/operations/reasons.ts';
import { REASONS } from '#shared/operations/reasons.ts';
import { type LineKind, pageOf, readCursor, type TraceLine, type Verdict } from '#shared/operations/timeline.ts';
import { type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { EFFECTS_VI, KIND_NAMES, REASON_NAMES, STANDINGS, TRACE_WORDS } from './trace-words.ts';
import type { Language } from './words.ts';

const PATH = '/ops/trace';
const LINES = 100;
/** Longest text that is searched; no id is as long. */
const MAX_ASKED = 300;

/** Returns the screen that finds any id, and answers why something has not happened. It changes nothing. */
export function traceScreen({ trace: read }: Pick<ConsoleDeps, 'trace'>): Screen {
  return {
    path: PATH,
    title: { en: TRACE_WORDS.en.heading, vi: TRACE_WORDS.vi.heading },
    async render({ query, language, operator, requestId }) {
      const w = TRACE_WORDS[language];
      const text = beginningOf((query.get('q') ?? '').trim(), MAX_ASKED);
      const asked = readAsked(text);
      const head = html`<h1>${w.heading}</h1>${searchForm(text, language)}`;
      if (asked === null) return html`${head}${hints(language)}`;
      const trace = await read(asked, { operator, requestId });
      if (trace === null) {
        const nothing = html`<p class="warning">${w.nothing(text)} ${w.nothingHint}</p>${hints(language)}`;
        return { status: 404, html: html`${head}${nothing}` };
      }
      const after = readCursor(query.get('after') ?? '');
      const { lines, nextCursor } = pageOf(trace.lines, { after, limit: LINES });
      return html`${head}
<h2>${trace.subject} <code>${asked.value}</code></h2>
${summary(trace, lines, language)}
<h2>${w.timeline(trace.lines.length)}</h2>
${trace.cut.length > 0 && html`<p class="note">${w.cut(trace.cut.map((kind) => KIND_NAMES[kind][language]).join(', '))}</p>`}
<ol class="timeline">${lines.map((line) => item(line, language))}</ol>
<p class="row">${after !== null && html`<a href="${addressOf(text)}">${w.first}</a>`}
${nextCursor !== null && html`<a href="${addressOf(text, nextCursor)}">${w.later}</a>`}</p>`;
    },
  };
}

/** Returns the address of a trace. */
export function addressOf(asked: string, after?: string): string {
  return `${PATH}?${new URLSearchParams({ q: asked, ...(after === undefined ? {} : { after }) })}`;
}

function searchForm(text: string, language: Language): Html {
  const w = TRACE_WORDS[language];
  return html`<form class="search" role="search" method="get" action="${PATH}">
<label for="q">${w.field}<input id="q" name="q" type="search" size="44" maxlength="${MAX_ASKED}" value="${text}" autocomplete="off" spellcheck="false" autocapitalize="none"></label>
<button>${w.search}</button>
</form>`;
}

function hints(language: Language): Html {
  const w = TRACE_WORDS[language];
  const prefixes: [string, string][] = [
    ['student:', w.ofStudent],
    ['exam:', w.ofExam],
    ['user:', w.ofUser],
  ];
  return html`<p class="note">${w.hint}</p>
<ul class="note">${prefixes.map(([prefix, meaning]) => html`<li><code>${prefix}ID</code> – ${meaning}</li>`)}</ul>`;
}

const CLASS_OF: Readonly<Record<Standing, string>> = {
  stuck: 'alarm',
  waits: 'warning',
  runs: 'well',
  dropped: 'warning',
};

/** Returns the statements of a trace, those that need the operator first. `shown` are the lines on the same page. */
function summary({ verdicts, moreVerdicts, lines }: Trace, shown: readonly TraceLine[], language: Language): Html {
  const w = TRACE_WORDS[language];
  if (verdicts.length === 0) return html`<p class="well">${w.well}</p>`;
  return html`<section aria-label="${w.why}">${verdicts.map((verdict) => {
    const first = lines.find(({ id }) => id === verdict.id);
    return statement(verdict, { first, isShown: shown.some(({ id }) => id === verdict.id) }, language);
  })}
${moreVerdicts > 0 && html`<p class="note">${w.more(moreVerdicts)}</p>`}</section>`;
}

function statement(
  { standing, code, text, remedy, count, id }: Verdict,
  { first, isShown }: { first: TraceLine | undefined; isShown: boolean },
  language: Language,
): Html {
  const w = TRACE_WORDS[language];
  const effect = language === 'vi' && first?.effect != null ? [EFFECTS_VI[first.effect]] : [];
  const name = [STANDINGS[standing][language], ...effect, REASON_NAMES[code][language]].join(' · ');
  return html`<p class="${CLASS_OF[standing]}"><strong>${marked(name)}</strong>${count > 1 && html` · ${w.times(count)}`}<br>
${marked(text)}${remedy !== null && html`<br>→ ${marked(remedy)}`}
${first !== undefined && html`<br>${aboutOf(first).map((link) => html`${link} `)}`}
${isShown && html`<a href="#${anchorOf(id)}">${w.example}</a>`}</p>`;
}

/** Returns a text whose words in backticks are code. */
export function marked(text: string): Html {
  return html`${text.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}

function item(line: TraceLine, language: Language): Html {
  const { at, kind, id, state, what, count, attempt, nextAt, endedAt, requestId, reason } = line;
  const w = TRACE_WORDS[language];
  const about = aboutOf(line);
  const facts: [string, Html | string][] = [
    ...(attempt === null ? [] : [[w.tries, `${attempt.n}/${attempt.max}`] as [string, string]]),
    ...(nextAt === null ? [] : [[w.next, time(nextAt)] as [string, Html]]),
    ...(endedAt === null ? [] : [[w.ended, time(endedAt)] as [string, Html]]),
    ...(about.length === 0 ? [] : [[w.about, html`${about.map((link) => html`${link} `)}`] as [string, Html]]),
    ...(requestId === null
      ? []
      : [[w.request, html`<a href="${addressOf(requestId)}"><code>${requestId}</code></a>`] as [string, Html]]),
  ];
  return html`<li id="${anchorOf(id)}">
<p class="line">${time(at)} <strong>${KIND_NAMES[kind][language]}</strong> <span class="tag ${toneOf(reason)}">${state}</span>
${what !== null && html`<span>${what}${count > 1 && html` × ${count}`}</span>`} ${linked(kind, id)}</p>
${reason !== null && html`<p class="reason"><strong>${REASON_NAMES[reason.code][language]}</strong>: ${marked(reason.text)}${reason.remedy !== null && html` → ${marked(reason.remedy)}`}</p>`}
${facts.length > 0 && html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}
</li>`;
}

/** Returns an id for the address of a line within the page. */
function anchorOf(id: string): string {
  return `line-${encodeURIComponent(id)}`;
}

function toneOf(reason: Reason | null): string {
  const standing = reason === null ? null : REASONS[reason.code];
  return standing === 'stuck' ? 'bad' : standing === 'waits' || standing === 'dropped' ? 'late' : '';
}

/** Kinds whose id the search finds. */
const FOUND: ReadonlySet<LineKind> = new Set([
  'account',
  'session',
  'attempt',
  'job',
  'generation',
  'command',
  'notice',
  'notification-event',
  'fan-out',
  'notification',
  'delivery',
  'delivery-attempt',
]);

function linked(kind: LineKind, id: string): Html {
  // The line of a submit has the id of its attempt with a suffix.
  const asked = kind === 'attempt' ? (id.split(':')[0] ?? id) : id;
  return FOUND.has(kind) ? html`<a href="${addressOf(asked)}"><code>${id}</code></a>` : html`<code>${id}</code>`;
}

/** Returns links to the traces of the other objects of a line. */
function aboutOf({ kind, id, what, about }: TraceLine): Html[] {
  const to = (asked: string): Html => html`<a href="${addressOf(asked)}"><code>${asked}</code></a>`;
  if (about === null) return [];
  switch (kind) {
    case 'attempt':
      // The line of a submit names its attempt, and what submitted it.
      return id.endsWith(':submitted') || what === null ? [to(about)] : [to(`student:${about}`), to(`exam:${what}`)];
    case 'release':
      return [to(`exam:${about}`)];
    case 'notification':
    case 'suppression':
      return [to(`user:${about}`)];
    case 'event':
      return [];
    default:
      return [to(about)];
  }
}
