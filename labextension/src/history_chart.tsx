import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { duration, longDuration, memory, percent, timeOfDay } from './format';
import { IMoment } from './history';
import { IGpuShareModel } from './model';
import type { Plot } from './plot';

interface IHistoryProps {
  model: IGpuShareModel;
  trans: TranslationBundle;
}

/** The last hour, or what there is of it, as a chart. The chart library is fetched when this is first shown, not when Lab starts. */
export function HistoryChart({ model, trans }: IHistoryProps): React.JSX.Element {
  const host = React.useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = React.useState<IMoment | null>(null);
  const [handedBack, lent] = [trans.__('handed back'), trans.__('lent to training')];
  const isMissing = usePlot(host, model, handedBack, lent, setPointed);
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-history">
      <h3>
        {pointed ? timeOfDay(pointed.at) : trans.__('History')} <Legend pointed={pointed} trans={trans} />
      </h3>
      <div ref={host} className="jp-gpushare-Chart" role="img" aria-label={inWords(model, trans)} />
      {isMissing ? (
        <p>{trans.__('The chart could not be loaded. Reload the page to try again.')}</p>
      ) : (
        <div className="jp-gpushare-Chart-ends" aria-hidden="true">
          <span>{trans.__('%1 ago', duration(model.history.spanS, trans))}</span>
          <span>{latest(model, trans)}</span>
        </div>
      )}
    </section>
  );
}

/** Which line is which; while the pointer is over the chart, what they say there. */
function Legend(props: { pointed: IMoment | null; trans: TranslationBundle }): React.JSX.Element {
  const { pointed, trans } = props;
  return (
    <span className="jp-gpushare-Legend">
      <span>
        <i data-line="memory" aria-hidden="true" />
        {pointed ? memory(pointed.memory, trans) : trans.__('memory')}
      </span>
      <span>
        <i data-line="compute" aria-hidden="true" />
        {pointed ? percent(pointed.utilisation, trans) : trans.__('compute')}
      </span>
    </span>
  );
}

/** Draw into *host* for as long as it is shown. Returns whether the chart library could not be had. */
function usePlot(
  host: React.RefObject<HTMLDivElement>,
  model: IGpuShareModel,
  handedBack: string,
  lent: string,
  onPoint: (moment: IMoment | null) => void
): boolean {
  const [plot, setPlot] = React.useState<Plot | null>(null);
  const [isMissing, setMissing] = React.useState(false);
  React.useEffect(() => {
    let isGone = false;
    let made: Plot | null = null;
    void model.loadHistory();
    import('./plot')
      .then(module => {
        if (!isGone && host.current) {
          made = new module.Plot(host.current, { handedBack, lent }, onPoint);
          setPlot(made);
        }
      })
      .catch(() => {
        setMissing(true); // no chunk, or no canvas: the panel goes on without a chart
      });
    return () => {
      isGone = true;
      made?.dispose();
    };
  }, [host, model, handedBack, lent, onPoint]);
  React.useEffect(() => {
    plot?.draw(model.history, model.snapshot?.share.limit ?? null);
  });
  return isMissing;
}

/** The right end of the chart: now, unless nothing is heard any more. */
function latest({ contact, history }: IGpuShareModel, trans: TranslationBundle): string {
  const last = history.moments[history.moments.length - 1];
  return contact === 'live' || !last ? trans.__('now') : timeOfDay(last.at);
}

/** The chart for those who do not see it. */
function inWords(model: IGpuShareModel, trans: TranslationBundle): string {
  const peak = highest(model.history.moments.map(moment => moment.memory));
  const busiest = highest(model.history.moments.map(moment => moment.utilisation));
  const parkedS = model.history.parked.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const used = trans.__(
    'Memory and compute of late: at most %1 and %2',
    memory(peak, trans),
    percent(busiest, trans)
  );
  return parkedS < 60 ? used : trans.__('%1; handed back for %2', used, longDuration(parkedS, trans));
}

function highest(column: readonly (number | null)[]): number | null {
  return column.reduce(
    (top, value) => (value === null || (top !== null && top >= value) ? top : value),
    null
  );
}
