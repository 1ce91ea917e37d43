import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type MeasuredCosts, OPERATIONS, type Operation } from './costs.ts';
import { type Load, round, type Sizing, sizeOf, USUAL_LOAD } from './sizing.ts';

const PAGE = path.resolve(import.meta.dirname, '../../../docs/capacity.md');
/** With a million students, the events of notifications on the first shard limit how fast notices are announced. */
const SIZES: readonly (Pick<Load, 'students'> & Partial<Load>)[] = [
  { students: 10_000 },
  { students: 100_000 },
  { students: 1_000_000, noticeSeconds: 1_800 },
];
/** Operations that a worker carries out. The worker of another operation idles beside it. */
const BY_WORKER: readonly Operation[] = ['submit', 'notice'];

/** Returns docs/capacity.md with the two tables of these costs between their marks. People write the rest of the page. */
export function capacityPage(measured: MeasuredCosts): string {
  const page = readFileSync(PAGE, 'utf8');
  return [
    ['costs', costTable(measured)],
    ['sizes', sizeTable(measured)],
  ].reduce((text, [name, table]) => {
    const marks = new RegExp(`(<!-- ${name} -->\n).*(\n<!-- end of ${name} -->)`, 's');
    if (!marks.test(text)) throw new Error(`docs/capacity.md has no marks of ${name}`);
    return text.replace(marks, (_, from, to) => `${from}\n${table}\n${to}`);
  }, page);
}

function costTable({ on, machine, database, costs }: MeasuredCosts): string {
  const rows = Object.entries(OPERATIONS).map(([name, what]) => {
    const { doorMs, workerMs, databaseMs, commands, bytes } = costs[name as Operation];
    const worker = BY_WORKER.includes(name as Operation) ? ms(workerMs) : '–';
    const kib = `${(bytes / 1_024).toFixed(1)} KiB`;
    return [what, `${ms(doorMs)} / ${worker}`, `${commands.toFixed(1)} (${ms(databaseMs)})`, kib];
  });
  const head = ['operation', 'front door / worker', 'MongoDB commands (time)', 'bytes to and from MongoDB'];
  return `Measured on ${on} (${machine}) with ${database}.\n\n${markdownTable(head, rows)}`;
}

function sizeTable({ costs }: MeasuredCosts): string {
  const sizings = SIZES.map((size) => {
    const load = { ...USUAL_LOAD, ...size, shards: 1 };
    const { shardsNeeded } = sizeOf(load, costs);
    if (shardsNeeded === null) throw new Error(`no number of shards carries ${load.students} students`);
    const onShards = { ...load, shards: shardsNeeded };
    return { load: onShards, sizing: sizeOf(onShards, costs) };
  });
  const row = (what: string, of: (load: Load, sizing: Sizing) => string) => [
    what,
    ...sizings.map(({ load, sizing }) => of(load, sizing)),
  ];
  return markdownTable(
    row('', ({ students }) => `${round(students)} students`),
    [
      row('notices announced within', ({ noticeSeconds }) => `${noticeSeconds / 60} min`),
      row('least number of shards', ({ shards }) => `${shards}`),
      row('`web` processes', (_, { processes }) => `${processes.web}`),
      row('`grading` / `gradenotices`', (_, { processes }) => `${processes.grading} / ${processes.gradenotices}`),
      row('commands a second on the first shard', (_, { commandsOfShard }) => round(commandsOfShard)),
      row('of these, polls', (_, { pollsOfShard }) => round(pollsOfShard)),
      row('Redis commands a second', (_, { redisCommands }) => round(redisCommands)),
      row('connections of all processes', (_, { connections }) => round(connections)),
      row('disk a term, each member', (_, { diskGiB }) => `${diskGiB.toFixed(0)} GiB`),
    ],
  );
}

function ms(value: number): string {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
}

function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map((row) => (row[column] ?? '').length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
