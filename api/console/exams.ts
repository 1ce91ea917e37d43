import type { Exam, ExamAttempt, ExamAttemptList, ExamRelease } from '#shared/generated/operations.ts';
import { ATTEMPT_STATUSES, type ExamWalk, PAGE_ATTEMPTS, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { REASONS } from '#shared/operations/reasons.ts';
import { WORDS } from './exam-words.ts';
import { flag, type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, PageCall, Screen, Shown } from './screen.ts';
import { addressOf, marked } from './trace.ts';
import { REASON_NAMES } from './trace-words.ts';
import { type Language, spanText } from './words.ts';

const PATH = '/ops/exams';
export const BOARD_PATH = '/ops/exams/board';

/** One exam while it runs: counts, releases, and a walk over its attempts. */
export function exams(deps: Pick<ConsoleDeps, 'exam' | 'examAttempts'>): Screen {
  return {
    path: PATH,
    title: { en: WORDS.en.heading, vi: WORDS.vi.heading },
    refreshes: true,
    async render(call) {
      const { walk, cursor } = askedBy(call.query);
      const { language } = call;
      const head = html`<h1>${WORDS[language].heading}</h1>${searchForm(walk, language)}`;
      if (walk.examId === '') return html`${head}<p class="note">${WORDS[language].hint}</p>`;
      const found = await readState(deps, call, walk, cursor);
      if (found === 'unknown') return notice(404, head, WORDS[language].unknown);
      if (found === 'foreign cursor') return notice(400, head, WORDS[language].foreignCursor);
      return html`${head}${state(found.exam, found.list, language)}${attemptTable(found.list, { walk, language })}`;
    },
  };
}

/** Reads the filters of the form. An unknown status is treated as none. */
function askedBy(query: URLSearchParams): { walk: ExamWalk; cursor: string | null } {
  const status = ATTEMPT_STATUSES.find((known) => known === query.get('status')) ?? null;
  const student = query.get('student')?.trim() || null;
  return { walk: { examId: query.get('exam')?.trim() ?? '', status, student }, cursor: query.get('cursor') };
}

interface State {
  exam: Exam;
  list: ExamAttemptList;
}

/** Reads the counts and one page of the attempts. */
async function readState(
  deps: Pick<ConsoleDeps, 'exam' | 'examAttempts'>,
  { operator, requestId }: PageCall,
  walk: ExamWalk,
  cursor: string | null,
): Promise<State | 'unknown' | 'foreign cursor'> {
  const after = cursor === null ? null : readWalkCursor(walk, cursor);
  if (cursor !== null && after === null) return 'foreign cursor';
  const [exam, list] = await Promise.all([
    deps.exam(walk.examId),
    deps.examAttempts({ ...walk, after, limit: PAGE_ATTEMPTS }, { operator, requestId }),
  ]);
  return exam === null || list === null ? 'unknown' : { exam, list };
}

function notice(status: number, head: Html, text: string): Shown {
  return { status, html: html`${head}<p class="warning">${text}</p>` };
}

function searchForm({ examId, status, student }: ExamWalk, language: Language): Html {
  const w = WORDS[language];
  return html`<form class="search" method="get" action="${PATH}" role="search">
<label>${w.exam}<input name="exam" value="${examId}" autocomplete="off" spellcheck="false"${flag('required', true)}></label>
<label>${w.status}<select name="status"><option value="">${w.anyStatus}</option>${ATTEMPT_STATUSES.map(
    (one) => html`<option value="${one}"${flag('selected', one === status)}>${w.statuses(one)}</option>`,
  )}</select></label>
<label>${w.student}<input name="student" value="${student ?? ''}" autocomplete="off" spellcheck="false"></label>
<button>${w.show}</button></form>`;
}

function state(exam: Exam, list: ExamAttemptList, language: Language): Html {
  const w = WORDS[language];
  const { attempts, late, essays, notices, results } = exam;
  const facts: [string, string | number | Html][] = [
    [w.attempts, attempts.total],
    [w.lateOpen, late.inProgress],
    [w.lateSubmitted, late.submitted],
    [w.essays, w.essaysOf(essays.answers, essays.attempts)],
    [w.noticesWaiting, notices.waiting],
    [w.noticesDead, notices.dead],
    [w.released, results.released],
    [w.newestStart, exam.newestStartAt === null ? w.none : time(new Date(exam.newestStartAt))],
    [w.closes, exam.closeTime === null ? w.none : time(new Date(exam.closeTime))],
  ];
  return html`<h2>${exam.title ?? w.untitled} <code>${exam.examId}</code></h2>
${views(exam.examId, PATH, language)}
${warnings(exam, list, language)}
<section class="card" aria-label="${w.counts}">${bar(attempts.byStatus, language)}
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>
${results.releases.length > 0 && releaseTable(results.releases, language)}`;
}

/** Returns what an operator has to know first: dead notices, grades that stand still, and attempts after their deadline. */
function warnings({ examId, late, notices }: Exam, { attempts }: ExamAttemptList, language: Language): Html {
  const w = WORDS[language];
  const stuck = attempts.find(({ reason }) => reason !== null && REASONS[reason.code] === 'stuck')?.reason ?? null;
  return html`${
    stuck !== null &&
    html`<p class="alarm"><strong>${w.notGraded} · ${REASON_NAMES[stuck.code][language]}</strong><br>
${marked(stuck.text)}${stuck.remedy !== null && html` → ${marked(stuck.remedy)}`}</p>`
  }
${notices.dead > 0 && html`<p class="alarm"><strong>${w.deadNotices(notices.dead)}</strong> <a href="${addressOf(`exam:${examId}`)}">${w.traceOfExam}</a></p>`}
${late.inProgress > 0 && html`<p class="warning">${w.overdue(late.inProgress)}</p>`}`;
}

/** Returns the links between the two pages of an exam. */
export function views(examId: string, here: string, language: Language): Html {
  const w = WORDS[language];
  const pages = [
    [PATH, w.attempts],
    [BOARD_PATH, w.board],
  ] as const;
  return html`<nav class="views" aria-label="${w.views}"><ul>${pages.map(
    ([path, name]) =>
      html`<li><a href="${path}?${queryOf({ exam: examId })}" aria-current="${path === here ? 'page' : 'false'}">${name}</a></li>`,
  )}</ul></nav>`;
}

/** Returns the attempts by status as one bar. Its numbers are text beside it. */
export function bar(byStatus: Exam['attempts']['byStatus'], language: Language): Html {
  const w = WORDS[language];
  const total = ATTEMPT_STATUSES.reduce((sum, status) => sum + byStatus[status], 0);
  let x = 0;
  const parts = ATTEMPT_STATUSES.map((status) => {
    const width = total === 0 ? 0 : Math.round((byStatus[status] / total) * 100_000) / 1_000;
    const part = html`<rect class="${KINDS[status]}" x="${x}" y="0" width="${width}" height="8"></rect>`;
    x += width;
    return part;
  });
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">${parts}</svg>
<ul class="keys">${ATTEMPT_STATUSES.map(
    (status) =>
      html`<li><span class="key ${KINDS[status]}"></span>${w.statuses(status)} <strong>${byStatus[status]}</strong></li>`,
  )}</ul>`;
}

const KINDS = { IN_PROGRESS: 'open', SUBMITTED: 'submitted', GRADED: 'graded' } as const;

function releaseTable(releases: readonly ExamRelease[], language: Language): Html {
  const w = WORDS[language];
  return html`<h2>${w.releases}</h2><div class="scroll" tabindex="0" role="region" aria-label="${w.releases}"><table>
<thead><tr><th scope="col">${w.release}</th><th scope="col">${w.from}</th><th scope="col">${w.command}</th><th scope="col" class="number">${w.attempts}</th><th scope="col" class="number">${w.notices}</th></tr></thead>
<tbody>${releases.map(
    ({ sourceEventId, releasedAt, state, command, updatedAttempts, queuedNotifications }) => html`<tr>
<th scope="row"><a href="${addressOf(sourceEventId)}">${sourceEventId}</a></th>
<td>${time(new Date(releasedAt))}${state === 'AHEAD' && html` <span class="tag late">${w.ahead}</span>`}</td>
<td>${command ?? w.none}</td><td class="number">${updatedAttempts}</td><td class="number">${queuedNotifications}</td></tr>`,
  )}</tbody></table></div>`;
}

function attemptTable(
  { attempts, nextCursor }: ExamAttemptList,
  { walk, language }: { walk: ExamWalk; language: Language },
): Html {
  const w = WORDS[language];
  if (attempts.length === 0) return html`<h2>${w.attempts}</h2><p class="note">${w.noAttempts}</p>`;
  const names = [w.student, w.status, w.grading, w.deadline, w.lastSave, w.answered, w.results, w.attempt];
  return html`<h2>${w.attempts}</h2><div class="scroll" tabindex="0" role="region" aria-label="${w.attempts}"><table>
<thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${attempts.map((attempt) => attemptRow(attempt, { walk, language }))}</tbody></table></div>
${nextCursor !== null && html`<p><a href="${PATH}?${queryOf({ ...fieldsOf(walk), cursor: nextCursor })}" rel="next">${w.next}</a></p>`}`;
}

function attemptRow(row: ExamAttempt, { walk, language }: { walk: ExamWalk; language: Language }): Html {
  const w = WORDS[language];
  const { id, studentId, attemptNumber, lastSavedAt, grading, pendingEssays, reason } = row;
  const isBad = grading === 'DEAD' || (reason !== null && REASONS[reason.code] === 'stuck');
  return html`<tr>
<th scope="row"><a class="clip" title="${studentId}" href="${PATH}?${queryOf({ ...fieldsOf(walk), student: studentId })}">${studentId}</a>${attemptNumber > 1 && html` ${w.number(attemptNumber)}`}</th>
<td>${w.statuses(row.status)}</td>
<td>${isBad ? html`<span class="tag bad">${w.gradings(grading)}</span>` : w.gradings(grading)}${pendingEssays > 0 && html` (${pendingEssays})`}${reason !== null && html` <span class="hush">${REASON_NAMES[reason.code][language]}</span>`}</td>
<td>${deadlineCell(row, language)}</td>
<td>${lastSavedAt === null ? w.none : time(new Date(lastSavedAt))}</td>
<td>${row.answered}/${row.questions}</td>
<td>${w.resultStates(row.results)}</td>
<td><a title="${id}" href="${addressOf(id)}"><code>${id.length > 12 ? `…${id.slice(-12)}` : id}</code></a></td></tr>`;
}

/** Returns the deadline, and by how much it has been exceeded. */
function deadlineCell({ deadlineAt, lateSeconds }: ExamAttempt, language: Language): Html | string {
  const w = WORDS[language];
  if (deadlineAt === null) return w.none;
  const late = lateSeconds !== null && w.late(spanText(lateSeconds * 1_000, language));
  return html`${time(new Date(deadlineAt))}${late !== false && html` <span class="tag late">${late}</span>`}`;
}

function fieldsOf({ examId, status, student }: ExamWalk) {
  return { exam: examId, status, student };
}

/** Returns the query of a page: those of its fields that are set. */
export function queryOf(fields: Readonly<Record<string, string | null>>): string {
  const given = Object.entries(fields).filter((field): field is [string, string] => field[1] !== null);
  return new URLSearchParams(given).toString();
}
