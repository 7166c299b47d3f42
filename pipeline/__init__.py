"""The data pipeline: Spark turns journals into tables."""
