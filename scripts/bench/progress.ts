/** A moving line on a terminal, one plain line per measure elsewhere. All on standard error: the report goes to standard output. */
export interface Progress {
  begin(what: string): void;
  step(done: number, of: number): void;
  say(line: string): void;
  end(): void;
}

const BAR = 30;
const REDRAW_MS = 100;

export function openProgress(terminal: NodeJS.WriteStream): Progress {
  let what = '';
  let drawnAt = 0;
  const clear = () => terminal.isTTY && terminal.write('\r\x1b[2K');
  return {
    begin(name) {
      what = name;
      drawnAt = 0;
      if (!terminal.isTTY) terminal.write(`bench: ${name}\n`);
    },
    step(done, of) {
      if (!terminal.isTTY || (performance.now() - drawnAt < REDRAW_MS && done < of)) return;
      drawnAt = performance.now();
      const full = Math.round((done / of) * BAR);
      terminal.write(`\r\x1b[2K${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${what}`);
    },
    say(line) {
      clear();
      terminal.write(`bench: ${line}\n`);
    },
    end: () => void clear(),
  };
}
