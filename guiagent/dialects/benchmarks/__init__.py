"""Languages of benchmarks' agents: OSWorld's two, AndroidWorld's and BrowserGym's."""
