import { isLent } from './lease_view';
import { isHandedBack } from './parking_view';
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

/** A time in which the share was handed back, in seconds since the epoch. */
export interface IParkedSpan {
  begin: number;
  end: number;
  /** Whether training is known to have used it meanwhile. */
  isLent: boolean;
}

/** The last hour of the session's use, oldest first. */
export class History {
  get moments(): readonly IMoment[] {
    return this._moments;
  }

  /** When the share was handed back, oldest first; they do not overlap. */
  get parked(): readonly IParkedSpan[] {
    return this._parked;
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
  load({ at, memory, utilisation, parked, lent }: HistoryColumns): void {
    const length = Math.min(at.length, memory.length, utilisation.length);
    const remembered = at.slice(0, length).map((moment, index) => ({
      at: moment,
      memory: memory[index] ?? null,
      utilisation: utilisation[index] ?? null
    }));
    const [came, cameParked] = [this._moments, this._parked];
    this._moments = [];
    [...remembered, ...came].forEach(moment => {
      this._push(moment);
    });
    this._parked = [];
    [...spansIn(parked, lent), ...cameParked]
      .sort((a, b) => a.begin - b.begin)
      .forEach(span => {
        this._pushParked(span);
      });
  }

  append(snapshot: Snapshot): void {
    const { at, memory, utilisation } = snapshot;
    const before = this._moments[this._moments.length - 1]?.at ?? at;
    this._push({ at, memory: memory.value, utilisation: utilisation.value });
    if (isHandedBack(snapshot)) {
      const isGoingOn = this._wasHandedBack && at - before <= GAP_S;
      this._pushParked({ begin: isGoingOn ? before : at, end: at, isLent: isLent(snapshot) });
    }
    this._wasHandedBack = isHandedBack(snapshot);
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

  /** One that begins before the last has ended lengthens it; what is older than the window goes. */
  private _pushParked(span: IParkedSpan): void {
    const last = this._parked[this._parked.length - 1];
    if (last && span.begin <= last.end) {
      last.end = Math.max(last.end, span.end);
      last.isLent ||= span.isLent;
    } else {
      this._parked.push({ ...span });
    }
    this._parked = this._parked.filter(({ end }) => end >= span.end - WINDOW_S);
  }

  private _moments: IMoment[] = [];
  private _parked: IParkedSpan[] = [];
  private _wasHandedBack = false;
}

/** The pairs that are a begin and a later end; *lent* are those in which training used the share. */
function spansIn(pairs: readonly number[][], lent: readonly number[][]): IParkedSpan[] {
  const touches = (begin: number, end: number): boolean =>
    lent.some(([from, to]) => from !== undefined && to !== undefined && from < end && to > begin);
  return pairs.flatMap(([begin, end]) =>
    begin !== undefined && end !== undefined && begin <= end
      ? [{ begin, end, isLent: touches(begin, end) }]
      : []
  );
}
