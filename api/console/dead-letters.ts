import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { type DeadGroup, deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { firstPlace, letterPage } from '#infra/mongo/mailbox/dead-letters.ts';
import { listBulks } from '#infra/mongo/operations/bulk-acts.ts';
import { actsOnLetter, findLetter } from '#infra/mongo/operations/dead-acts.ts';
import type { Command } from '#shared/kernel/command.ts';
import { bulkView, DEAD_ACTS } from '#shared/operations/bulk-act.ts';
import { type LetterFilter, letterCursor, readLetterCursor, readLetterFilter } from '#shared/operations/dead-letter.ts';
import { ACT_NAMES, DEAD_WORDS, STATE_NAMES } from './dead-letter-words.ts';
import { flag, type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import type { Language } from './words.ts';

export const HOME = '/ops/dead-letters';
const LETTERS = 50;
const BULKS = 5;

/** The screen of all dead letters by cause, with the newest bulk acts. */
export function deadLetters({ mongo }: ConsoleDeps): Screen {
  return {
    path: HOME,
    title: { en: DEAD_WORDS.en.heading, vi: DEAD_WORDS.vi.heading },
    async render({ query, language }) {
      const w = DEAD_WORDS[language];
      const filter = readFilter((name) => query.get(name) ?? '');
      if (filter === null)
        return { status: 400, html: html`<h1>${w.heading}</h1><p class="warning">${w.filterFault}</p>` };
      const isDropped = query.get('dropped') === '1';
      const [{ groups, more }, bulks] = await Promise.all([
        deadGroups(mongo, { ...filter, ...(isDropped && { letter: 'DROPPED' }) }),
        listBulks(mongo, BULKS),
      ]);
      return html`<h1>${w.heading}</h1><p class="hush">${w.intro}</p>
${filterForm(filter, isDropped, language)}
${more && html`<p class="warning">${w.more}</p>`}
${groups.length === 0 ? html`<p class="well">${w.none}</p>` : groupTable(groups, filter, { isDropped, language })}
<h2 class="unseen">${w.bulks}</h2>
${bulks.length === 0 ? html`<p class="hush">${w.noBulks}</p>` : bulkTable(bulks.map(bulkView), language)}`;
    },
  };
}

function filterForm(filter: LetterFilter, isDropped: boolean, language: Language): Html {
  const w = DEAD_WORDS[language];
  const { queue, cause, subject, since, until } = filter;
  const isOpen = isDropped || Object.keys(filter).length > 0;
  return html`<details${flag('open', isOpen)}><summary>${w.filter}</summary><form class="search" method="get" action="${HOME}">
<label>${w.queue}<select name="queue"><option value="">${w.allQueues}</option>${QUEUES.map(
    (name) => html`<option value="${name}"${flag('selected', name === queue)}>${name}</option>`,
  )}</select></label>
<label>${w.cause}<input name="cause" value="${cause}" maxlength="2000"></label>
<label>${w.subject}<input name="subject" value="${subject}" maxlength="256"></label>
<label>${w.since}<input name="since" type="datetime-local" value="${minuteOf(since)}"></label>
<label>${w.until}<input name="until" type="datetime-local" value="${minuteOf(until)}"></label>
<label class="tick"><input name="dropped" type="checkbox" value="1"${flag('checked', isDropped)}>${w.dropped}</label>
<button>${w.filter}</button>
</form></details>`;
}

function minuteOf(at: Date | undefined): string {
  return at === undefined ? '' : at.toISOString().slice(0, 16);
}

function groupTable(
  groups: readonly DeadGroup[],
  filter: LetterFilter,
  { isDropped, language }: { isDropped: boolean; language: Language },
): Html {
  const w = DEAD_WORDS[language];
  const rows = groups.map((group) => {
    const wanted = { ...filter, queue: group.queue, cause: group.fingerprint };
    const to = addressOf(`${HOME}/letters`, wanted, isDropped ? { dropped: '1' } : {});
    return html`<tr><td class="wide"><a href="${to}">${group.fingerprint}</a></td><td class="number">${group.count}</td><td>${group.queue}</td>
<td class="number">${group.acknowledged}</td><td>${time(group.lastAt)}</td>
${!isDropped && html`<td><a href="${addressOf(`${HOME}/confirm`, wanted, { act: 'replay' })}" aria-label="${ACT_NAMES.replay[language]}: ${group.fingerprint}">${ACT_NAMES.replay[language]}</a></td>`}</tr>`;
  });
  return scrolled(
    'groups',
    w.letters,
    [w.cause, { number: w.count }, w.queue, { number: w.acknowledged }, w.last, ...(isDropped ? [] : [w.act])],
    rows,
  );
}

/** The head of a column: its name, empty for a column of boxes, or the name of a column of numbers. */
type Head = string | { number: string };

/** Returns a table that scrolls by itself. */
export function scrolled(id: string, caption: string, heads: readonly Head[], rows: readonly Html[]): Html {
  return html`<div class="scroll" role="region" aria-labelledby="${id}" tabindex="0"><table>
<caption id="${id}">${caption}</caption>
<thead><tr>${heads.map(headCell)}</tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

function headCell(head: Head): Html {
  if (head === '') return html`<td></td>`;
  return typeof head === 'string'
    ? html`<th scope="col">${head}</th>`
    : html`<th scope="col" class="number">${head.number}</th>`;
}

function bulkTable(bulks: readonly ReturnType<typeof bulkView>[], language: Language): Html {
  const w = DEAD_WORDS[language];
  const rows = bulks.map(
    ({
      id,
      act,
      state,
      done,
      counted,
      operator,
      askedAt,
    }) => html`<tr><td><a href="${HOME}/jobs/${id}">${time(new Date(askedAt))}</a></td>
<td>${ACT_NAMES[act][language]}</td><td>${STATE_NAMES[state][language]}</td><td class="number">${done} ${w.of} ${counted}</td><td>${operator}</td></tr>`,
  );
  return scrolled('bulks', w.bulks, [w.asked, w.act, w.state, { number: w.done }, w.operator], rows);
}

/** The letters of a filter, which an operator chooses from. */
export function letterList({ mongo }: ConsoleDeps): Screen {
  return {
    path: `${HOME}/letters`,
    within: HOME,
    title: { en: DEAD_WORDS.en.letters, vi: DEAD_WORDS.vi.letters },
    async render({ query, language }) {
      const w = DEAD_WORDS[language];
      const filter = readFilter((name) => query.get(name) ?? '');
      if (filter === null)
        return { status: 400, html: html`<h1>${w.letters}</h1><p class="warning">${w.filterFault}</p>` };
      const isDropped = query.get('dropped') === '1';
      const from = readLetterCursor(query.get('after') ?? '', QUEUES) ?? firstPlace(filter);
      const page = await letterPage(mongo, { ...filter, ...(isDropped && { letter: 'DROPPED' }) }, from, {
        limit: LETTERS,
      });
      const more = isDropped ? { dropped: '1' } : {};
      const next =
        page.next === null ? null : addressOf(`${HOME}/letters`, filter, { ...more, after: letterCursor(page.next) });
      return html`<h1>${w.letters}</h1>
<p class="hush">${[filter.queue, filter.cause, filter.subject].filter((part) => part !== undefined).join(' · ')}</p>
${page.letters.length === 0 ? html`<p class="well">${next === null ? w.none : w.noneYet}</p>` : letterForm(page.letters, { isDropped, language })}
<p class="row">${query.get('after') !== null && html`<a href="${addressOf(`${HOME}/letters`, filter, more)}">${w.first}</a>`}
${next !== null && html`<a href="${next}">${w.next}</a>`}</p>
${!isDropped && page.letters.length > 0 && Object.keys(filter).length > 0 && allForm(filter, language)}`;
    },
  };
}

function letterForm(
  letters: readonly Command[],
  { isDropped, language }: { isDropped: boolean; language: Language },
): Html {
  const w = DEAD_WORDS[language];
  const rows = letters.map(
    ({ _id, subject, settledAt, replays, letter, lastError }) => html`<tr>
<td>${!isDropped && html`<input type="checkbox" name="id" value="${_id}" aria-label="${w.choose} ${_id}">`}</td>
<td><a href="${letterAddress(_id)}"><code>${_id}</code></a></td><td>${subject}</td><td>${settledAt !== null && time(settledAt)}</td>
<td class="number">${replays}</td><td>${letter !== undefined && html`<span class="tag">${letter}</span>`}</td><td class="wide">${lastError?.message}</td></tr>`,
  );
  const heads = ['', w.id, w.subject, w.died, { number: w.replays }, w.mark, w.error];
  return html`<form method="get" action="${HOME}/confirm">${scrolled('letters', w.letters, heads, rows)}
${!isDropped && html`<div class="row">${actChoice(language)}<button>${w.forChosen}</button></div>`}</form>`;
}

function allForm(filter: LetterFilter, language: Language): Html {
  const w = DEAD_WORDS[language];
  return html`<form class="row" method="get" action="${HOME}/confirm">${filterFields(filter)}${actChoice(language)}<button>${w.forAll}</button></form>`;
}

function actChoice(language: Language): Html {
  return html`<label>${DEAD_WORDS[language].act}<select name="act">${DEAD_ACTS.map(
    (act) => html`<option value="${act}">${ACT_NAMES[act][language]}</option>`,
  )}</select></label>`;
}

/** One letter with its error, its operators and its trace. */
export function oneLetter({ mongo }: ConsoleDeps): Screen {
  return {
    path: `${HOME}/letters/:id`,
    within: HOME,
    title: { en: DEAD_WORDS.en.letter, vi: DEAD_WORDS.vi.letter },
    async render({ params, language, now }) {
      const w = DEAD_WORDS[language];
      const found = await findLetter(mongo, params.id ?? '', now);
      if (found === null) return { status: 404, html: html`<h1>${w.letter}</h1><p class="warning">${w.unknown}</p>` };
      const { command, state, superseded } = found;
      const { _id, queue, subject, status, letter, attempts, maxAttempts, replays, createdAt, settledAt, lastError } =
        command;
      const acts = await actsOnLetter(mongo, command);
      const facts: [string, Html | string | number | null][] = [
        [w.queue, queue],
        [w.status, [state ?? status, letter].filter((part) => part !== undefined).join(', ')],
        [w.attempts, `${attempts}/${maxAttempts}`],
        [w.replays, replays],
        [w.created, time(createdAt)],
        [w.died, settledAt === null ? '–' : time(settledAt)],
      ];
      return html`<h1>${w.letter}</h1><p><code>${_id}</code></p>
${superseded && html`<p class="warning">${w.superseded}</p>`}
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${lastError !== null && html`<h2>${w.error}</h2><p class="alarm">${lastError.message}</p>`}
<p class="row"><a href="/ops/trace?q=${encodeURIComponent(subject)}">${w.trace}: ${subject}</a>
<a href="/ops/trace?q=${encodeURIComponent(_id)}">${w.traceOwn}</a></p>
${
  status === 'DEAD' &&
  letter !== 'DROPPED' &&
  html`<form class="row" method="get" action="${HOME}/confirm"><input type="hidden" name="id" value="${_id}">${DEAD_ACTS.map(
    (act) =>
      html`<button name="act" value="${act}" class="${act === 'drop' ? 'danger' : ''}">${ACT_NAMES[act][language]}</button>`,
  )}</form>`
}
<h2>${w.story}</h2>
${acts.length === 0 ? html`<p class="hush">${w.noActs}</p>` : html`<ol class="timeline">${acts.map((row) => html`<li>${time(row.at)} · ${row.action} · ${row.operator}: ${row.reason}</li>`)}</ol>`}`;
    },
  };
}

const MINUTE = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?$/;

/** Returns the filter of a query or a form, or null if its queue or a time is invalid. Times without a zone are UTC. */
export function readFilter(text: (name: string) => string): LetterFilter | null {
  const given = (name: string) => (text(name) === '' ? undefined : text(name));
  const [queue, cause, subject, since, until] = ['queue', 'cause', 'subject', 'since', 'until'].map(given);
  const filter = readLetterFilter({ queue, cause, subject, since, until }, { queues: QUEUES, timeOf: timeIn });
  return 'fault' in filter ? null : filter;
}

/** Reads a time in UTC, or returns null if the text is invalid. */
export function timeIn(text: string): Date | null {
  const at = new Date(`${text.replace(/Z$/, '')}Z`);
  return MINUTE.test(text) && !Number.isNaN(at.getTime()) ? at : null;
}

function fieldsOf({ queue, cause, subject, since, until }: LetterFilter): [string, string][] {
  const fields = { queue, cause, subject, since: since?.toISOString(), until: until?.toISOString() };
  return Object.entries(fields).filter((pair): pair is [string, string] => pair[1] !== undefined);
}

/** Returns a filter as hidden fields of a form. */
export function filterFields(filter: LetterFilter): Html {
  return html`${fieldsOf(filter).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}`;
}

/** Returns the address of a page with a filter. */
export function addressOf(path: string, filter: LetterFilter, more: Readonly<Record<string, string>> = {}): string {
  return `${path}?${new URLSearchParams([...fieldsOf(filter), ...Object.entries(more)])}`;
}

function letterAddress(id: string): string {
  return `${HOME}/letters/${encodeURIComponent(id).replaceAll('%3A', ':')}`;
}
