export interface Sample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

const LINE = /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const NUMBERS: Readonly<Record<string, number>> = { '+Inf': Infinity, '-Inf': -Infinity };

/** Returns the samples of a text in Prometheus' exposition format. @throws Error for an unreadable line */
export function samplesOf(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const { name = '', labels = '', value = '' } = LINE.exec(line)?.groups ?? {};
      if (name === '') throw new Error(`no sample: ${line}`);
      const pairs = [...labels.matchAll(LABEL)].map(([, label = '', text = '']) => [label, unescaped(text)]);
      return { name, labels: Object.fromEntries(pairs), value: NUMBERS[value] ?? Number(value) };
    });
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, letter: string) => (letter === 'n' ? '\n' : letter));
}

/** Scrapes a process, as Prometheus does. @throws Error if the process does not answer 200 */
export async function scrape(url: string): Promise<Sample[]> {
  const response = await fetch(`${url}/metrics`);
  if (!response.ok) throw new Error(`${url}/metrics answered ${response.status}`);
  return samplesOf(await response.text());
}

/** Scrapes processes by their names, which become the label `instance`. A process that does not answer has no samples. */
export async function scrapeAll(urls: Readonly<Record<string, string>>): Promise<Sample[]> {
  const scrapes = Object.entries(urls).map(async ([instance, url]) => {
    const samples = await scrape(url).catch((): Sample[] => []);
    return samples.map(({ labels, ...sample }) => ({ ...sample, labels: { ...labels, instance } }));
  });
  return (await Promise.all(scrapes)).flat();
}

export function sumOf(samples: readonly Sample[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  return samples
    .filter((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
