import { writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { type Figures, meetsAim, type Row, ratioOf } from './row.ts';

const HEAD = ['measure', 'ours p50 / p99', 'reference p50 / p99', 'against', 'ratio', 'aim', 'met'];

/** The rows as aligned text, for a terminal. */
export function textTable(rows: readonly Row[]): string {
  const lines = [HEAD, ...rows.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function markdownTable(rows: readonly Row[]): string {
  const lines = [HEAD, HEAD.map(() => '---'), ...rows.map(cells)];
  return lines.map((line) => `| ${line.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}

/** A line for each note, named by its measure. */
export function notesOf(rows: readonly Row[]): string[] {
  return rows.flatMap((row) => row.notes.map((note) => `${row.name}: ${note}`));
}

function cells(row: Row): string[] {
  const ratio = ratioOf(row);
  const met = meetsAim(row);
  return [
    row.name,
    figures(row.ours, row.unit),
    row.reference === null ? '–' : figures(row.reference, row.unit),
    row.against,
    ratio === null ? '–' : `${ratio.toFixed(2)}×`,
    row.aim === null ? '–' : `${row.aim.side === 'most' ? '≤' : '≥'} ${row.aim.ratio}×`,
    met === null ? '–' : met ? 'yes' : 'no',
  ];
}

function figures({ p50, p99 }: Figures, unit: Row['unit']): string {
  return `${number(p50)} / ${number(p99)} ${unit}`;
}

function number(value: number): string {
  if (!Number.isFinite(value)) return '?';
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, ' ');
}

const LEFT = 300;
const WIDTH = 420;
const LINE = 44;
const TOP = 56;
const MET = '#2f7d4f';
const MISSED = '#b4532a';

/** The ratios as bars, each with a mark at its aim. 1 = as fast as the reference. */
export function ratioChart(rows: readonly Row[], title: string): string {
  const shown = rows.filter((row) => ratioOf(row) !== null && row.aim !== null);
  const largest = Math.max(1.5, ...shown.map((row) => Math.max(ratioOf(row) ?? 0, row.aim?.ratio ?? 0)));
  const x = (ratio: number) => LEFT + (ratio / largest) * WIDTH;
  const height = TOP + shown.length * LINE + 30;
  const full = LEFT + WIDTH + 90;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    '<style>text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.title{font-size:15px;font-weight:600}</style>',
    `<rect width="${full}" height="${height}" fill="#ffffff"/>`,
    `<text class="title" x="16" y="28">${escaped(title)}</text>`,
    `<line x1="${x(1)}" x2="${x(1)}" y1="${TOP - 8}" y2="${height - 22}" stroke="#8c959f" stroke-dasharray="3 3"/>`,
    `<text class="small" x="${x(1)}" y="${height - 8}" text-anchor="middle">1× = the reference</text>`,
    ...shown.flatMap((row, index) => bar(row, TOP + index * LINE, x)),
    '</svg>',
    '',
  ].join('\n');
}

function bar(row: Row, y: number, x: (ratio: number) => number): string[] {
  const ratio = ratioOf(row) ?? 0;
  const aim = row.aim?.ratio ?? 0;
  const sign = row.aim?.side === 'most' ? '≤' : '≥';
  return [
    `<text x="16" y="${y + 14}">${escaped(row.name)}</text>`,
    `<text class="small" x="16" y="${y + 28}">aim ${sign} ${aim}×, ${sign === '≤' ? 'shorter' : 'longer'} is better</text>`,
    `<rect x="${LEFT}" y="${y + 2}" width="${(x(ratio) - LEFT).toFixed(1)}" height="20" rx="3" fill="${meetsAim(row) ? MET : MISSED}"/>`,
    `<line x1="${x(aim).toFixed(1)}" x2="${x(aim).toFixed(1)}" y1="${y - 3}" y2="${y + 27}" stroke="#24292f" stroke-width="2"/>`,
    `<text x="${(Math.max(x(ratio), x(aim)) + 8).toFixed(1)}" y="${y + 17}">${ratio.toFixed(2)}×</text>`,
  ];
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

const HOW =
  'Both sides of a ratio were measured in one run, in turn, after a warm-up; a ratio compares medians. Absolute numbers ' +
  'say as much about the machine as about the product. Nothing here is a test: `npm run bench` exits 0 whatever it measures.';

/** Writes `docs/bench.md` and its chart. */
export function writeReport(docs: string, rows: readonly Row[], machine: readonly string[]): void {
  const notes = notesOf(rows).map((note) => `- ${note}`);
  const page = [
    '# Speed',
    '',
    '<!-- Written by `npm run bench`. -->',
    HOW,
    '',
    markdownTable(rows),
    '',
    '![Ratios against their references](bench.svg)',
    '',
    ...(notes.length === 0 ? [] : ['## Notes', '', ...notes, '']),
    '## Machine',
    '',
    ...machine.map((line) => `- ${line}`),
    '',
  ];
  writeFileSync(path.join(docs, 'bench.md'), page.join('\n'));
  writeFileSync(path.join(docs, 'bench.svg'), ratioChart(rows, 'examhall against its references'));
}

/** What the numbers were measured on, as `name: value` lines. */
export async function machineLines(urls: { mongodbUrl: string; redisUrl: string }): Promise<string[]> {
  const [mongodb, redis] = await Promise.all([mongodbLine(urls.mongodbUrl), redisLine(urls.redisUrl)]);
  const [first] = os.cpus();
  return [
    `date: ${new Date().toISOString().slice(0, 16)}Z`,
    `processor: ${first?.model.trim() ?? 'unknown'}, ${os.availableParallelism()} cores`,
    `load: ${os.loadavg()[2]?.toFixed(1)} on average over the last quarter of an hour (this run alone makes about 2)`,
    `memory: ${Math.round(os.totalmem() / 2 ** 30)} GiB`,
    `system: ${os.type()} ${os.release()} ${os.arch()}`,
    `Node: ${process.version}`,
    `MongoDB: ${mongodb}`,
    `Redis: ${redis}`,
  ];
}

async function mongodbLine(url: string): Promise<string> {
  const client = new MongoClient(url);
  try {
    const [info, hello] = await Promise.all([
      client.db('admin').command({ buildInfo: 1 }),
      client.db('admin').command({ hello: 1 }),
    ]);
    // The stand-in calls itself by the version that it imitates; its replica set's name gives it away.
    const standIn = hello.setName === 'secantus' || 'secantusVersion' in info;
    return standIn ? `SecantusDB (speaks ${info.version}), not a real mongod` : `mongod ${info.version}`;
  } finally {
    await client.close();
  }
}

async function redisLine(url: string): Promise<string> {
  const client = new Redis(url);
  try {
    return `redis-server ${/redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown'}`;
  } finally {
    client.disconnect();
  }
}
