import { HistoryColumns, Snapshot } from './wire';

const WINDOW_S = 3600;

/** An unwatched server reads every ten seconds, or not at all: what is further apart is not one line. */
const GAP_S = 30;

/** Of a span of nothing no chart can be drawn. */
const SHORTEST_SPAN_S = 10;

/** One moment: when (seconds since the epoch), memory (bytes) and compute (per cent), null where unknown. */
export interface IMoment {
  at: number;
  memory: number | null;
  utilisation: number | null;
}

/** The last hour of the session's use, oldest first. */
export class History {
  get moments(): readonly IMoment[] {
    return this._moments;
  }

  /** The time that the moments cover, for a chart that they fill: at least ten seconds, at most an hour. */
  get spanS(): number {
    const [first] = this._moments;
    const last = this._moments[this._moments.length - 1];
    return first && last ? Math.max(SHORTEST_SPAN_S, last.at - first.at) : SHORTEST_SPAN_S;
  }

  /** The moments with an unknown one in each gap, so that a chart draws no line through what nobody read. */
  withGaps(): IMoment[] {
    return this._moments.flatMap((moment, index) => {
      const before = this._moments[index - 1];
      const isGap = before !== undefined && moment.at - before.at > GAP_S;
      return isGap ? [{ at: before.at + 1, memory: null, utilisation: null }, moment] : [moment];
    });
  }

  /** Take over what the server remembers, before what came since. Columns of unlike length are cut to the shortest. */
  load({ at, memory, utilisation }: HistoryColumns): void {
    const length = Math.min(at.length, memory.length, utilisation.length);
    const remembered = at.slice(0, length).map((moment, index) => ({
      at: moment,
      memory: memory[index] ?? null,
      utilisation: utilisation[index] ?? null
    }));
    const came = this._moments;
    this._moments = [];
    [...remembered, ...came].forEach(moment => {
      this._push(moment);
    });
  }

  append(snapshot: Snapshot): void {
    const { at, memory, utilisation } = snapshot;
    this._push({ at, memory: memory.value, utilisation: utilisation.value });
  }

  /** One that is not later than the last is dropped: the server's clock decides. */
  private _push(moment: IMoment): void {
    const last = this._moments[this._moments.length - 1];
    if (last && moment.at <= last.at) {
      return;
    }
    this._moments.push(moment);
    const firstKept = this._moments.findIndex(({ at }) => at >= moment.at - WINDOW_S);
    this._moments.splice(0, firstKept);
  }

  private _moments: IMoment[] = [];
}
