import type { BoardPage } from '#infra/mongo/exam-room/board.ts';
import { BOARD_FLAGS, readBoardCursor } from '#shared/exam-room/board.ts';
import type { Board, BoardFlag, BoardRow } from '#shared/generated/exam-room.ts';
import type { Exam } from '#shared/generated/operations.ts';
import { oneLine } from '#shared/kernel/text.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { ATTEMPT_STATUSES } from '#shared/operations/exam-walk.ts';
import { WORDS as EXAM_WORDS } from './exam-words.ts';
import { BOARD_PATH, bar, queryOf, views } from './exams.ts';
import { flag, type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { addressOf } from './trace.ts';
import { type Language, spanText, words } from './words.ts';

type Names = Readonly<Record<BoardFlag, string>>;

const FLAGS_EN: Names = { AWAY: 'away', SILENT: 'silent', OFTEN_AWAY: 'often away', OVERDUE: 'overdue' };
const FLAGS_VI: Names = {
  AWAY: 'đang rời trang',
  SILENT: 'mất tín hiệu',
  OFTEN_AWAY: 'hay rời trang',
  OVERDUE: 'quá hạn',
};

const MEANINGS_EN: Names = {
  AWAY: 'away: the page is hidden now',
  SILENT: 'silent: no sign for 90 s',
  OFTEN_AWAY: 'often away: 3 times or more',
  OVERDUE: 'overdue: open past the deadline',
};
const MEANINGS_VI: Names = {
  AWAY: 'đang rời trang: trang bị ẩn',
  SILENT: 'mất tín hiệu: từ 90 giây',
  OFTEN_AWAY: 'hay rời trang: từ 3 lần',
  OVERDUE: 'quá hạn: vẫn đang làm',
};

/** Words of the board, beside those of the exams screen. */
export const WORDS = words(
  {
    started: 'started',
    acts: 'Acts at this exam',
    flag: 'Flag',
    anyFlag: 'any',
    allRows: 'All rows',
    wrongAddress: 'No page of the board has this address: it names an unknown filter or place.',
    first: 'First page',
    timeLeft: 'Time left',
    lastSeen: 'Last seen',
    away: 'Away',
    awayFor: (count: number, span: string) => `${count === 1 ? 'once' : `${count} times`} · ${span}`,
    retries: 'Retries',
    ago: (span: string) => `${span} ago`,
    extra: (minutes: number) => `+${minutes} min`,
    voided: 'voided',
    flags: (flag: BoardFlag) => FLAGS_EN[flag],
    meanings: (flag: BoardFlag) => MEANINGS_EN[flag],
  },
  {
    started: 'đã bắt đầu',
    acts: 'Hành động với kỳ thi này',
    flag: 'Cảnh báo',
    anyFlag: 'tất cả',
    allRows: 'Mọi bài làm',
    wrongAddress: 'Phòng thi không có trang nào ở địa chỉ này: bộ lọc hoặc vị trí không hợp lệ.',
    first: 'Trang đầu',
    timeLeft: 'Còn lại',
    lastSeen: 'Thấy gần nhất',
    away: 'Rời trang',
    awayFor: (count: number, span: string) => `${count} lần · ${span}`,
    retries: 'Thử lại mạng',
    ago: (span: string) => `${span} trước`,
    extra: (minutes: number) => `+${minutes} phút`,
    voided: 'đã huỷ',
    flags: (flag: BoardFlag) => FLAGS_VI[flag],
    meanings: (flag: BoardFlag) => MEANINGS_VI[flag],
  },
);

const ROWS = 100;
/** Most characters of a name or a class that a row shows. The door of a start admits texts of 16 KiB. */
const MAX_NAME = 80;

/** The board of one exam: who sits, who is away, silent or overdue. */
export function board(deps: Pick<ConsoleDeps, 'exam' | 'board'>): Screen {
  return {
    path: BOARD_PATH,
    title: { en: EXAM_WORDS.en.board, vi: EXAM_WORDS.vi.board },
    within: '/ops/exams',
    refreshes: true,
    async render({ query, language, operator, requestId }) {
      const w = WORDS[language];
      const exam = await deps.exam(query.get('exam')?.trim() ?? '');
      if (exam === null) {
        const title = EXAM_WORDS[language].heading;
        const known = html`<p class="warning">${EXAM_WORDS[language].unknown}</p><p><a href="/ops/exams">${title}</a></p>`;
        return { status: 404, html: html`<h1>${title}</h1>${known}` };
      }
      const page = pageOf(exam.examId, query);
      if (page === null) {
        const all = html`<a href="${addressOfBoard(exam.examId)}">${w.allRows}</a>`;
        return { status: 400, html: html`${head(exam, language)}<p class="warning">${w.wrongAddress} ${all}</p>` };
      }
      const found = await deps.board(page, { operator, requestId });
      return html`${head(exam, language)}${summary(exam, found, language)}${filters(page, language)}${rows(found, page, language)}`;
    },
  };
}

/** Reads the filters of the form and the place of the page. Null: one of them has a value that no page of the console has sent. */
function pageOf(examId: string, query: URLSearchParams): BoardPage | null {
  const status = chosen(ATTEMPT_STATUSES, query.get('status'));
  const flag = chosen(BOARD_FLAGS, query.get('flag'));
  const cursor = query.get('after');
  const after = cursor === null ? null : readBoardCursor(cursor);
  if (status === undefined || flag === undefined || (cursor !== null && after === null)) return null;
  return { examId, status, flag, after, limit: ROWS };
}

/** Returns the chosen value, null if none is chosen, and undefined for an unknown one. */
function chosen<Value extends string>(values: readonly Value[], value: string | null): Value | null | undefined {
  return value === null || value === '' ? null : values.find((one) => one === value);
}

function addressOfBoard(examId: string, fields: Readonly<Record<string, string | null>> = {}): string {
  return `${BOARD_PATH}?${queryOf({ exam: examId, ...fields })}`;
}

function head({ examId, title }: Exam, language: Language): Html {
  return html`<h1>${title ?? EXAM_WORDS[language].untitled} <code>${examId}</code></h1>${views(examId, BOARD_PATH, language)}`;
}

function summary({ examId, closeTime }: Exam, { summary: counts }: Board, language: Language): Html {
  const w = WORDS[language];
  const flagged = [
    ['AWAY', counts.away],
    ['SILENT', counts.silent],
    ['OVERDUE', counts.overdue],
  ] as const;
  const byStatus = { IN_PROGRESS: counts.open, SUBMITTED: counts.submitted, GRADED: counts.graded };
  return html`<section class="card" aria-label="${EXAM_WORDS[language].counts}">${bar(byStatus, language)}
<dl class="facts"><div><dt>${w.started}</dt><dd>${counts.started}</dd></div>
${flagged.map(
  ([one, count]) =>
    html`<div><dt>${w.flags(one)}</dt><dd>${count === 0 ? count : html`<a href="${addressOfBoard(examId, { flag: one })}">${count}</a>`}</dd></div>`,
)}
${closeTime !== null && html`<div><dt>${EXAM_WORDS[language].closes}</dt><dd>${time(new Date(closeTime))}</dd></div>`}
<div><dd><a href="/ops/audit?${queryOf({ subject: examId })}">${w.acts}</a></dd></div></dl></section>`;
}

function filters({ examId, status, flag: flagged }: BoardPage, language: Language): Html {
  const [w, of] = [WORDS[language], EXAM_WORDS[language]];
  return html`<form class="search narrow" method="get" action="${BOARD_PATH}"><input type="hidden" name="exam" value="${examId}">
<label>${of.status}<select name="status"><option value="">${of.anyStatus}</option>${ATTEMPT_STATUSES.map(
    (one) => html`<option value="${one}"${flag('selected', one === status)}>${of.statuses(one)}</option>`,
  )}</select></label>
<label>${w.flag}<select name="flag"><option value="">${w.anyFlag}</option>${BOARD_FLAGS.map(
    (one) => html`<option value="${one}"${flag('selected', one === flagged)}>${w.meanings(one)}</option>`,
  )}</select></label>
<button>${of.show}</button>
${(status !== null || flagged !== null) && html`<a href="${addressOfBoard(examId)}">${w.allRows}</a>`}</form>`;
}

function rows({ rows, next, serverTime }: Board, { examId, status, flag, after }: BoardPage, language: Language): Html {
  const [w, of] = [WORDS[language], EXAM_WORDS[language]];
  const heads = [of.student, of.status, of.answered, w.timeLeft, w.lastSeen, of.lastSave, w.away, w.retries];
  const now = Date.parse(serverTime);
  const filter = { status, flag };
  return html`${
    rows.length === 0
      ? html`<p class="note">${of.noAttempts}</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="${of.board}"><table class="board">
<thead><tr>${heads.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map((row) => rowOf(row, now, language))}</tbody></table></div>`
  }
<p class="row">${after !== null && html`<a href="${addressOfBoard(examId, filter)}">${w.first}</a>`}
${next !== null && html`<a href="${addressOfBoard(examId, { ...filter, after: next })}" rel="next">${of.next}</a>`}</p>`;
}

function rowOf(row: BoardRow, now: number, language: Language): Html {
  const [w, of] = [WORDS[language], EXAM_WORDS[language]];
  const { lastSeenAt, lastSavedAt, answered, questions, away, networkRetries, voidedAt } = row;
  const ago = (at: string) => w.ago(spanText(now - Date.parse(at), language));
  return html`<tr class="${voidedAt === null ? '' : 'voided'}"><th scope="row">${student(row, language)}</th>
<td class="state">${of.statuses(row.status)}${voidedAt !== null && html` <span class="tag">${w.voided}</span>`}
<div>${row.flags.map((one) => html`<span class="tag ${one === 'OVERDUE' ? 'bad' : 'late'}">${w.flags(one)}</span> `)}</div></td>
${cell(of.answered, html`${answered}/${questions}`)}${cell(w.timeLeft, timeLeft(row, now, language))}
${cell(w.lastSeen, ago(lastSeenAt))}${cell(of.lastSave, lastSavedAt && ago(lastSavedAt))}
${cell(w.away, away.count > 0 && w.awayFor(away.count, spanText(away.seconds * SECOND, language)))}
${cell(w.retries, networkRetries > 0 && networkRetries)}</tr>`;
}

/** Returns a cell, which a phone shows under its name, and only if it has a value. */
function cell(name: string, value: Html | string | number | false | null): Html {
  return value === null || value === false
    ? html`<td class="none">–</td>`
    : html`<td data-name="${name}">${value}</td>`;
}

/** Returns the student by name, which leads to the trace of the attempt. A text of a stranger stays in its place by `bdi`. */
function student({ attemptId, studentId, studentInfo, attemptNumber }: BoardRow, language: Language): Html {
  const name = textOf(studentInfo?.fullName) ?? textOf(studentInfo?.name);
  const ofClass = textOf(studentInfo?.className);
  return html`<a class="clip" title="${name ?? studentId}" href="${addressOf(attemptId)}"><bdi>${name ?? studentId}</bdi></a>
${attemptNumber > 1 && html`<span class="hush">${EXAM_WORDS[language].number(attemptNumber)}</span>`}
<div class="hush">${ofClass !== null && html`<bdi class="clip" title="${ofClass}">${ofClass}</bdi> `}${name !== null && html`<span class="clip" title="${studentId}">${studentId}</span>`}</div>`;
}

/** Returns a text of `studentInfo`, which may have any form. */
function textOf(value: unknown): string | null {
  const text = typeof value === 'string' ? oneLine(value, MAX_NAME) : '';
  return text === '' ? null : text;
}

/** Returns the time left of an open attempt, and what an examiner has added. Null: there is neither. */
function timeLeft(row: BoardRow, now: number, language: Language): Html | null {
  const { secondsLeft, deadlineAt, extraMinutes, flags } = row;
  const extra = extraMinutes > 0 && html` <span class="tag good">${WORDS[language].extra(extraMinutes)}</span>`;
  if (secondsLeft === null || deadlineAt === null) return extra || null;
  const late = spanText(now - Date.parse(deadlineAt), language);
  return html`${flags.includes('OVERDUE') ? EXAM_WORDS[language].late(late) : spanText(secondsLeft * SECOND, language)}${extra}
<div class="hush">${time(new Date(deadlineAt))}</div>`;
}
