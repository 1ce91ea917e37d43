import type { ErrorFacts, Retry } from '#shared/kernel/errors/error-facts.ts';
import { ERROR_GROUPS } from '#shared/kernel/errors.ts';
import { wrapLines } from './wrap-lines.ts';

/** Longest line of an item of the document, in characters. */
const ITEM_WIDTH = 150;

/** Answers to whether a client may repeat a request, in the words of the page. */
export const RETRY: Readonly<Record<Retry, string>> = {
  no: 'no',
  yes: 'yes',
  after: 'after `Retry-After`',
  'after-if-sent': 'after `Retry-After`, if sent',
};

/** Returns the list of codes of `docs/errors.md`. */
export function errorList(): string {
  return ERROR_GROUPS.map(groupMarkdown).join('\n');
}

function groupMarkdown({ title, errors }: { title: string; errors: Readonly<Record<string, ErrorFacts>> }): string {
  const codes = Object.entries(errors);
  const rows = codes.map(
    ([code, { status, retry }]) => `| [\`${code}\`](#${code.toLowerCase()}) | ${status} | ${RETRY[retry]} |`,
  );
  return `## ${title}

| code | status | retry |
| --- | --- | --- |
${rows.join('\n')}

${codes.map(([code, facts]) => codeMarkdown(code, facts)).join('\n')}`;
}

function codeMarkdown(code: string, { status, message, cause, remedy, retry }: ErrorFacts): string {
  return `### \`${code}\`

${status}: ${message}

${wrapLines(`- **Cause:** ${cause}`, '  ', ITEM_WIDTH)}
${wrapLines(`- **Client:** ${remedy}`, '  ', ITEM_WIDTH)}
${wrapLines(`- **Retry:** ${RETRY[retry]}`, '  ', ITEM_WIDTH)}
`;
}
