import { findBulk, postBulk, previewBulk, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import { type ActRow, actOnIds, NOT_CHARGED } from '#infra/mongo/operations/dead-acts.ts';
import { logActs, MIN_REASON, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import { newId } from '#shared/kernel/ids.ts';
import { bulkView, DEAD_ACTS, type DeadActName, isBulkServed, PER_SECOND } from '#shared/operations/bulk-act.ts';
import type { LetterFilter } from '#shared/operations/dead-letter.ts';
import { ACT_NAMES, DEAD_WORDS, DONE_NAMES, STATE_NAMES } from './dead-letter-words.ts';
import { addressOf, filterFields, HOME, readFilter, scrolled, timeIn } from './dead-letters.ts';
import { flag, type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, PageCall, Screen, Shown } from './screen.ts';

/** Ids of one form; a page of letters has fewer. */
const MAX_IDS = 100;

/** The act that an operator wants: on the letters of these ids, or without ids on all letters of the filter. */
interface Wanted {
  act: DeadActName;
  ids: string[];
  filter: LetterFilter;
  /** When the page counted the letters: those that die later are not taken. Undefined until then. */
  countedAt: Date | undefined;
  chargeSuperseded: boolean;
  /** Key of the bulk act, so that a form that is sent twice posts one. */
  key: string;
}

/** The page that counts the letters of an act before it happens, and the form that carries it out. */
export function confirmAct(deps: ConsoleDeps): Screen {
  const { mongo } = deps;
  return {
    path: `${HOME}/confirm`,
    within: HOME,
    title: { en: DEAD_WORDS.en.confirm, vi: DEAD_WORDS.vi.confirm },
    async render(call) {
      const wanted = readWanted((name) => call.query.getAll(name), call.now);
      return wanted === null ? nothingChosen(call) : confirmPage(deps, call, wanted, null);
    },
    acts: [
      {
        path: `${HOME}/act`,
        async run(call) {
          const { form, language, now } = call;
          const wanted = readWanted(form.all, now);
          if (wanted === null) return nothingChosen(call);
          const reason = form.text('reason');
          if (reason.length < MIN_REASON) {
            const again = await confirmPage(deps, call, wanted, DEAD_WORDS[language].reasonMissing);
            return { status: 400, html: again };
          }
          const by = actOf(deps, call, reason);
          if (wanted.ids.length > 0) {
            const { rows } = await actOnIds(mongo, wanted, wanted.ids, by);
            return { status: 200, html: resultPage(rows, call) };
          }
          const posted = await postBulk(mongo, { ...orderOf(wanted), perSecond: PER_SECOND }, by, {
            maxAttempts: deps.commandAttempts,
          });
          switch (posted.kind) {
            case 'erased':
              return { status: 410, html: await confirmPage(deps, call, wanted, DEAD_WORDS[language].subjectErased) };
            case 'reused':
              return keyTaken(call, wanted, posted.command._id);
            case 'posted':
              return { to: `${HOME}/jobs/${posted.command._id}` };
          }
        },
      },
    ],
  };
}

/** The form of a page was sent twice with different contents, for example after the browser went back. */
function keyTaken({ language }: PageCall, { act, filter }: Wanted, first: string): Shown {
  const w = DEAD_WORDS[language];
  const content = html`<h1>${w.keyTaken}</h1><p class="alarm" role="alert">${w.keyTakenText}</p>
<p class="row"><a href="${HOME}/jobs/${first}">${w.firstSent}</a> <a href="${addressOf(`${HOME}/confirm`, filter, { act })}">${w.again}</a></p>`;
  return { status: 409, html: content };
}

function orderOf({ act, filter, countedAt, chargeSuperseded, key }: Wanted) {
  const until = filter.until ?? countedAt;
  return { act, filter: until === undefined ? filter : { ...filter, until }, chargeSuperseded, key };
}

function readWanted(all: (name: string) => string[], now: number): Wanted | null {
  const text = (name: string) => all(name)[0]?.trim() ?? '';
  const act = DEAD_ACTS.find((name) => name === text('act'));
  const filter = readFilter(text);
  const ids = [...new Set(all('id'))].slice(0, MAX_IDS);
  if (act === undefined || filter === null || (ids.length === 0 && Object.keys(filter).length === 0)) return null;
  const key = /^[\w-]{1,128}$/.test(text('key')) ? text('key') : newId(now);
  const countedAt = timeIn(text('countedAt')) ?? undefined;
  return { act, ids, filter, countedAt, chargeSuperseded: text('charge') === '1' && act === 'replay', key };
}

function nothingChosen({ language }: PageCall): Shown {
  const w = DEAD_WORDS[language];
  const content = html`<h1>${w.confirm}</h1><p class="warning">${w.nothingChosen}</p><p><a href="${HOME}">${w.cancel}</a></p>`;
  return { status: 400, html: content };
}

async function confirmPage(
  { mongo }: ConsoleDeps,
  { language, proof, now }: PageCall,
  wanted: Wanted,
  fault: string | null,
): Promise<Html> {
  const w = DEAD_WORDS[language];
  const { act, ids, filter, key, chargeSuperseded } = wanted;
  const isBulk = ids.length === 0;
  const dry = isBulk ? null : await actOnIds(mongo, { act, chargeSuperseded }, ids, null);
  const preview = dry ?? (await previewBulk(mongo, { act, filter, chargeSuperseded }, now));
  const { counted, more, superseded, groups } = preview;
  return html`<h1>${ACT_NAMES[act][language]}</h1>
<p class="${act === 'drop' ? 'alarm' : 'warning'}"><strong>${w.would(atLeast(counted, more, language), DONE_NAMES[act][language])}</strong> ${superseded > 0 && w.wouldRefuse(superseded)} ${isBulk && w.pace(PER_SECOND)} ${act === 'replay' && !chargeSuperseded && w.chargeHint}</p>
${isBulk ? scrolled('preview', w.letters, [w.cause, w.queue, { number: w.count }, { number: w.acknowledged }], groups.map(groupRow)) : rowTable(dry?.rows ?? [], language)}
<form method="post" action="${HOME}/act">${proof}<input type="hidden" name="act" value="${act}"><input type="hidden" name="key" value="${key}">
${isBulk ? html`${filterFields(filter)}<input type="hidden" name="countedAt" value="${new Date(now).toISOString()}">` : ids.map((id) => html`<input type="hidden" name="id" value="${id}">`)}
${fault !== null && html`<p class="alarm" role="alert">${fault}</p>`}
<label>${w.reason} (${w.reasonHint})<input name="reason" minlength="${MIN_REASON}" maxlength="500" size="30" required autocomplete="off"></label>
${act === 'replay' && html`<label class="tick"><input type="checkbox" name="charge" value="1"${flag('checked', chargeSuperseded)}>${w.charge}</label>`}
<p class="row"><button class="${act === 'drop' ? 'danger' : ''}">${ACT_NAMES[act][language]}: ${atLeast(counted, more, language)}</button><a href="${HOME}">${w.cancel}</a></p>
</form>`;
}

/** Returns a number, or that it is a lower bound. */
function atLeast(count: number, more: boolean, language: PageCall['language']): string {
  return more ? DEAD_WORDS[language].atLeast(count) : `${count}`;
}

function groupRow({
  fingerprint,
  queue,
  count,
  acknowledged,
}: Awaited<ReturnType<typeof previewBulk>>['groups'][number]): Html {
  return html`<tr><td class="wide">${fingerprint}</td><td>${queue}</td><td class="number">${count}</td><td class="number">${acknowledged}</td></tr>`;
}

function rowTable(rows: readonly ActRow[], language: PageCall['language']): Html {
  const w = DEAD_WORDS[language];
  const cells = rows.map(
    ({
      id,
      queue,
      cause,
      outcome,
      why,
    }) => html`<tr><td><code>${id}</code></td><td>${queue}</td><td class="wide">${cause}</td>
<td class="wide">${outcome === 'skipped' && html`<span class="tag late">${w.wouldSkip}</span>`} ${why === NOT_CHARGED ? w.superseded : html`<span lang="en">${why}</span>`}</td></tr>`,
  );
  return scrolled('rows', w.letters, [w.id, w.queue, w.cause, w.state], cells);
}

function resultPage(rows: readonly ActRow[], { language }: PageCall): Html {
  const w = DEAD_WORDS[language];
  const done = rows.filter(({ outcome }) => outcome === 'done').length;
  return html`<h1>${w.chosen}</h1><p class="${done === rows.length ? 'well' : 'warning'}">${w.result(done, rows.length)}</p>
${rowTable(rows, language)}<p><a href="${HOME}">${w.cancel}</a></p>`;
}

/** The progress of a bulk act, and the form that stops it. */
export function bulkAct(deps: ConsoleDeps): Screen {
  const { mongo, cluster } = deps;
  const unknown = ({ language }: PageCall): Shown => ({
    status: 404,
    html: html`<h1>${DEAD_WORDS[language].job}</h1><p class="warning">${DEAD_WORDS[language].unknownJob}</p>`,
  });
  return {
    path: `${HOME}/jobs/:id`,
    within: HOME,
    title: { en: DEAD_WORDS.en.job, vi: DEAD_WORDS.vi.job },
    refreshes: true,
    async render(call) {
      const found = await findBulk(mongo, call.params.id ?? '');
      if (found === null) return unknown(call);
      const view = bulkView(found);
      const isOpen = view.endedAt === null;
      const { workers } = isOpen ? await cluster.workers() : { workers: [] };
      return jobPage(view, call, isOpen && !isBulkServed(workers));
    },
    acts: [
      {
        path: `${HOME}/jobs/:id/stop`,
        async run(call) {
          const found = await findBulk(mongo, call.params.id ?? '');
          if (found === null) return unknown(call);
          const reason = call.form.text('reason');
          if (reason.length < MIN_REASON) {
            const fault = html`<p class="alarm" role="alert">${DEAD_WORDS[call.language].reasonMissing}</p>`;
            return { status: 400, html: html`${fault}${jobPage(bulkView(found), call, false)}` };
          }
          await stopBulk(mongo, found, actOf(deps, call, reason));
          return { to: `${HOME}/jobs/${found._id}` };
        },
      },
    ],
  };
}

function jobPage(view: ReturnType<typeof bulkView>, { language, proof }: PageCall, isUnserved: boolean): Html {
  const w = DEAD_WORDS[language];
  const passed = view.done + view.skipped + view.refused;
  const facts: [string, Html | string | number][] = [
    [w.state, STATE_NAMES[view.state][language]],
    [w.done, `${view.done} ${w.of} ${atLeast(view.counted, view.more, language)}`],
    [w.skipped, view.skipped],
    [w.refused, view.refused],
    [w.perSecond, view.perSecond],
    [w.operator, view.operator],
    [w.asked, time(new Date(view.askedAt))],
    [w.ended, view.endedAt === null ? '–' : time(new Date(view.endedAt))],
  ];
  const { queue, cause, subject, since, until } = view.filter;
  const parts = [queue, cause, subject].filter((part) => part !== null);
  return html`<h1>${w.job}: ${ACT_NAMES[view.act][language]}</h1>
${isUnserved && html`<p class="alarm">${w.noWorker}</p>`}
${view.waitsFor !== null && html`<p class="warning">${w.waitsFor(view.waitsFor)}</p>`}
${view.error !== null && html`<p class="alarm">${view.error}</p>`}
<p><label>${w.progress} <progress max="${Math.max(1, view.counted)}" value="${view.endedAt === null ? passed : Math.max(1, view.counted)}">${passed}</progress></label></p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<p><span class="hush">${w.filter}:</span> ${parts.join(' · ')}${parts.length > 0 && ' · '}${since !== null && html`${w.from} ${time(new Date(since))} · `}${w.before} ${time(new Date(until))}</p><p><span class="hush">${w.reason}:</span> ${view.reason}</p>
${
  (view.state === 'WAITING' || view.state === 'RUNNING') &&
  html`<form class="row" method="post" action="${HOME}/jobs/${view.id}/stop">${proof}<label>${w.reason} (${w.reasonHint})<input name="reason" minlength="${MIN_REASON}" maxlength="500" required autocomplete="off"></label>
<button class="danger">${w.stop}</button></form><p class="hush">${w.stopHint}</p>`
}
<p><a href="${HOME}">${w.heading}</a></p>`;
}

function actOf({ log }: ConsoleDeps, { operator, requestId, now }: PageCall, reason: string): OperatorAct {
  return { operator, reason, now, committed: logActs(log, { requestId }) };
}
