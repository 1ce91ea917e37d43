import { type AuditFilter, readAuditPage } from '#infra/mongo/operations/audit.ts';
import { AUDIT_ACTIONS, type AuditRow, auditFacts } from '#infra/mongo/operator-audit.ts';
import { type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { type Language, words } from './words.ts';

const WORDS = words(
  {
    title: 'Audit',
    intro: 'Acts of operators, the newest first.',
    operator: 'Operator',
    action: 'Act',
    subject: 'Subject',
    filter: 'Filter',
    clear: 'All acts',
    at: 'time',
    reason: 'reason and detail',
    none: 'No act matches.',
    older: 'Older acts',
    newest: 'Newest acts',
    charged: 'Charged although superseded.',
    wrongCursor: 'This address is not that of a page. Begin with the newest acts.',
  },
  {
    title: 'Nhật ký kiểm toán',
    intro: 'Hành động của người vận hành, mới nhất trước.',
    operator: 'Người vận hành',
    action: 'Hành động',
    subject: 'Đối tượng',
    filter: 'Lọc',
    clear: 'Mọi hành động',
    at: 'thời gian',
    reason: 'lý do và chi tiết',
    none: 'Không có hành động nào phù hợp.',
    older: 'Hành động cũ hơn',
    newest: 'Hành động mới nhất',
    charged: 'Đã tính phí dù đã bị thay thế.',
    wrongCursor: 'Địa chỉ này không phải của một trang. Hãy bắt đầu từ các hành động mới nhất.',
  },
);
type Words = (typeof WORDS)[Language];

/** The audit of operators, filtered by operator, act and subject, in pages. */
export function audit({ mongo }: Pick<ConsoleDeps, 'mongo'>): Screen {
  return {
    path: '/ops/audit',
    title: { en: WORDS.en.title, vi: WORDS.vi.title },
    async render({ query, language }) {
      const w = WORDS[language];
      const filter = filterOf(query);
      const page = await readAuditPage(mongo, filter, query.get('cursor'));
      const search = html`<h1>${w.title}</h1><p class="note">${w.intro}</p>${form(filter, w)}`;
      if (page === null)
        return { status: 400, html: html`${search}<p class="alarm" role="alert">${w.wrongCursor}</p>` };
      const { rows, nextCursor } = page;
      const here = new URLSearchParams({ ...filter });
      return html`${search}
${rows.length === 0 ? html`<p>${w.none}</p>` : table(rows, w)}
<p class="row">${query.has('cursor') && html`<a href="/ops/audit?${here.toString()}">${w.newest}</a>`}
${nextCursor !== null && html`<a href="/ops/audit?${new URLSearchParams({ ...filter, cursor: nextCursor }).toString()}">${w.older}</a>`}</p>`;
    },
  };
}

function filterOf(query: URLSearchParams): AuditFilter {
  const named = (['operator', 'action', 'subject'] as const).flatMap((name) => {
    const value = query.get(name)?.trim() ?? '';
    return value === '' ? [] : [[name, value] as const];
  });
  return Object.fromEntries(named);
}

function form(filter: AuditFilter, w: Words): Html {
  const text = (name: keyof AuditFilter, list: string) =>
    html`<label>${w[name]} <input name="${name}" value="${filter[name] ?? ''}" maxlength="256" autocomplete="off" list="${list}"></label>`;
  return html`<form class="search" action="/ops/audit">
${text('operator', '')}${text('action', 'acts')}${text('subject', '')}
<datalist id="acts">${AUDIT_ACTIONS.map((action) => html`<option value="${action}"></option>`)}</datalist>
<button>${w.filter}</button> <a href="/ops/audit">${w.clear}</a>
</form>`;
}

function table(rows: readonly AuditRow[], w: Words): Html {
  const heads = [w.at, w.operator, w.action, w.subject, w.reason];
  return html`<div class="scroll" role="region" aria-label="${w.title}" tabindex="0"><table>
<thead><tr>${heads.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) => html`<tr><td>${time(row.at)}</td>
<td><a href="/ops/audit?${new URLSearchParams({ operator: row.operator }).toString()}">${row.operator}</a></td>
<td>${row.action}</td>
<td><a href="/ops/audit?${new URLSearchParams({ subject: row.subject }).toString()}"><code>${row.subject}</code></a></td>
<td class="wide">${row.reason}<div class="hush">${detailOf(row, w)}</div></td></tr>`,
  )}</tbody></table></div>`;
}

/** Returns the fields of an account, or the command of a dead letter or a bulk act, and what the act did. */
function detailOf(row: AuditRow, w: Words): Html {
  const facts = auditFacts(row).map(([name, value]) =>
    name === 'chargeSuperseded' && value === 'true'
      ? html`<strong>${w.charged}</strong> `
      : html`<code>${name}</code> ${value} `,
  );
  if (!('commandId' in row)) return html`${facts}`;
  const { queue, commandId, action } = row;
  const id = encodeURIComponent(commandId).replaceAll('%3A', ':');
  const to = action.startsWith('dead.bulk-') ? `/ops/dead-letters/jobs/${id}` : `/ops/trace?q=${id}`;
  const error = 'lastError' in row ? row.lastError : null;
  return html`${queue} <a href="${to}"><code>${commandId}</code></a> ${facts}${error?.message}`;
}
